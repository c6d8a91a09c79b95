//! How long a machine may work while no power is cut.

use std::time::{Duration, Instant};

use super::machine::SILENCE_LIMIT;
use crate::CrashError;
use crate::workload::CrashWorkload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkLimits {
    total: Option<Duration>,
    /// From one reply to the next.
    silence: Duration,
}

impl WorkLimits {
    /// A program may work for so long, with or without a line. The built-in work ends, however slow
    /// an emulated machine is.
    pub(crate) fn of(workload: &CrashWorkload, program: Duration) -> Self {
        match workload {
            CrashWorkload::Program(_) => Self { total: Some(program), silence: program },
            _ => Self { total: None, silence: SILENCE_LIMIT },
        }
    }

    /// Checks work that began at `start` and was last heard of at `heard`.
    ///
    /// # Errors
    /// Why it is not waited for any longer.
    pub(crate) fn check(self, start: Instant, heard: Instant) -> Result<(), CrashError> {
        match self.total {
            Some(total) if start.elapsed() >= total => {
                Err(CrashError::WorkloadEndless { seconds: total.as_secs() })
            }
            _ if heard.elapsed() >= self.silence => {
                Err(CrashError::Silent { seconds: self.silence.as_secs() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ProgramWorkload, SqliteMode, WORK_LIMIT};

    #[test]
    fn a_program_may_be_silent_for_long_and_built_in_work_may_take_longer() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        let program = ProgramWorkload { run: String::new(), check: String::new() };
        let program = CrashWorkload::Program(program);
        let limits = WorkLimits::of(&program, WORK_LIMIT);
        assert!(limits.check(ago(200), ago(200)).is_ok());
        let ended = limits.check(ago(300), ago(1));
        assert!(matches!(ended, Err(CrashError::WorkloadEndless { seconds: 300 })), "{ended:?}");
        // However often it prints a line.
        let ended = WorkLimits::of(&program, Duration::from_secs(120)).check(ago(121), ago(0));
        assert!(matches!(ended, Err(CrashError::WorkloadEndless { seconds: 120 })), "{ended:?}");
        for workload in [CrashWorkload::Files, CrashWorkload::Sqlite(SqliteMode::default())] {
            let limits = WorkLimits::of(&workload, Duration::from_secs(120));
            assert!(limits.check(ago(3000), ago(1)).is_ok());
            let ended = limits.check(ago(200), ago(120));
            assert!(matches!(ended, Err(CrashError::Silent { seconds: 120 })), "{ended:?}");
        }
    }
}
