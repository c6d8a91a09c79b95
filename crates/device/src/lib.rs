//! Describes block devices and image files, opens them safely, and defines the traits
//! [`BlockDev`] and [`Clock`] that real and simulated devices implement.
//!
//! Only [`guard`] creates a [`WriteConsent`]. Every function that can change a device requires one.

pub mod blockdev;
pub mod clock;
mod consented_run;
pub mod declared;
pub mod describe;
pub mod device_lock;
mod device_names;
pub mod direct;
pub mod guard;
pub mod identity;
pub mod in_use;
pub mod list;
pub mod measured;
pub mod object;
pub mod partitions;
pub mod queue;
pub mod random;
pub mod refusal;
pub mod registers;
pub mod system;
pub mod target;
pub mod units;

pub use blockdev::{BlockDev, BlockDevError, BlockDevInfo};
pub use clock::{Clock, SystemClock, VirtualClock};
pub use consented_run::{ConsentedRunError, making_timeout};
pub use declared::{DeclaredBytes, DeclaredFacts, DeclaredProduct};
pub use describe::{Device, DeviceError, DeviceKind};
pub use device_lock::{DeviceLock, DeviceLockError};
pub use direct::{DirectDevice, DirectError};
pub use guard::{ConsentMethod, WriteConsent};
pub use measured::MeasuredDevice;
pub use object::{ObjectId, TargetFile};
pub use refusal::Refusal;
pub use system::SystemRoots;
pub use target::{Target, TargetError};
pub use units::Bytes;
