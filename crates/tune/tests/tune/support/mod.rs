//! Test support: small search spaces, trials with known figures, and a fake test bed whose figures
//! are a function of the setup.

mod header;
mod space;
mod stand;
mod trials;

pub use header::{facts, header, spec};
pub use space::{SpaceOf, opt, setup};
pub use stand::{FakeTestBed, Watcher, workload};
pub use trials::{Answer, failed, measured, point};
