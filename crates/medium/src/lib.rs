//! What a medium says of itself, opening it safely, and the seams that stand for any medium.
//!
//! [`guard`] is the only place that makes a [`WriteConsent`]; nothing that can change a medium can
//! be called without one.

pub mod blockdev;
pub mod clock;
pub mod declared;
pub mod describe;
mod device_names;
pub mod direct;
pub mod guard;
pub mod held;
pub mod identity;
pub mod in_use;
pub mod list;
pub mod object;
pub mod partitions;
pub mod queue;
pub mod random;
pub mod refusal;
pub mod registers;
pub mod system;
pub mod target;
pub mod units;

pub use blockdev::{BlockDev, BlockDevError, Description};
pub use clock::{Clock, SystemClock, VirtualClock};
pub use declared::{Declared, DeclaredBytes};
pub use describe::{Kind, Medium, MediumError};
pub use direct::{DirectError, DirectMedium};
pub use guard::{Agreement, WriteConsent};
pub use held::{Held, HeldError};
pub use object::{ObjectId, TargetFile};
pub use refusal::Refusal;
pub use system::System;
pub use target::{Target, TargetError};
pub use units::Bytes;
