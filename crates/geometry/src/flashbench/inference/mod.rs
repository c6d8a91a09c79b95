//! What flashbench's tables say of a medium.

pub mod erase_step;
mod segments;
