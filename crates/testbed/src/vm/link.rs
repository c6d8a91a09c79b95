//! The link to the agent in a virtual machine, through a virtio port.

use std::time::Duration;

use flashfit_user_error::{ExitClass, Hint, UserSetting};
use flashfit_vm::{ClockSpeed, Vm};

use crate::TrialError;
use crate::remote::{Link, LinkEnds, LinkError, SILENCE_TIMEOUT};

/// With counted instructions, two seconds of the machine's clock may take minutes.
const COUNTED_SILENCE_TIMEOUT: Duration = Duration::from_secs(900);

/// Cannot reconnect: a machine that ended is not restarted.
#[derive(Debug)]
pub struct VmLink {
    vm: Vm,
    connected: bool,
}

impl VmLink {
    pub fn new(vm: Vm) -> Self {
        Self { vm, connected: false }
    }
}

impl Link for VmLink {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        let link_error = |message: String| LinkError {
            message,
            hint: None,
            class: ExitClass::Io,
            is_transient: false,
        };
        if self.connected {
            return Err(link_error("the virtual machine has ended".to_owned()));
        }
        self.connected = true;
        let ends = || Ok((self.vm.channel()?, self.vm.channel()?));
        let (input, output) =
            ends().map_err(|error: std::io::Error| link_error(error.to_string()))?;
        Ok(LinkEnds { input: Box::new(input), output: Box::new(output) })
    }

    fn reconnect_timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn silence_timeout(&self) -> Duration {
        match self.vm.facts().speed {
            ClockSpeed::RealTime => SILENCE_TIMEOUT,
            ClockSpeed::Counted { .. } => COUNTED_SILENCE_TIMEOUT,
        }
    }

    fn last_error_line(&mut self) -> Option<String> {
        Some(format!("its last console output: {}", self.vm.last_error_line()?))
    }

    fn hint_for(&self, error: &TrialError) -> Option<Hint> {
        let message = error.to_string();
        let signs = ["no space left", "No space left", "Out of memory"];
        signs.iter().any(|sign| message.contains(sign)).then(|| {
            Hint::from("a virtual machine keeps its files in memory; start a run with more: ")
                .and(UserSetting::Memory)
                .and(" SIZE")
        })
    }

    fn label(&self) -> String {
        "the virtual machine".to_owned()
    }
}
