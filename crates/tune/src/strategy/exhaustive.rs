//! Every setup of the space.

use flashfit_filesystem::Setup;

use super::{Strategy, incomplete};
use crate::results::Results;
use crate::space::{Choices, Space};

/// Tries every setup; for small spaces and for grids to compare other strategies with.
#[derive(Debug, Clone, Copy)]
pub struct Exhaustive;

impl Strategy for Exhaustive {
    fn next(&self, space: &Space, results: &Results) -> Vec<Setup> {
        incomplete(space.choices.iter().flat_map(Choices::all_setups).collect(), results)
    }

    fn most_setups(&self, space: &Space) -> usize {
        space.choices.iter().map(|choices| choices.all_setups().len()).sum()
    }
}
