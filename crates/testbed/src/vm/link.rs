//! The way to the agent in a virtual machine: its channel.

use std::time::Duration;

use flashfit_user_error::ExitClass;
use flashfit_vm::{ClockSpeed, Vm};

use crate::TrialError;
use crate::remote::{Link, LinkEnds, LinkError, SILENCE};

/// A sign of life every two seconds of the machine's own time may be long in coming.
const COUNTED_SILENCE: Duration = Duration::from_secs(900);

/// The machine's channel. A machine that is gone does not come back.
#[derive(Debug)]
pub struct VmLink {
    vm: Vm,
    connected: bool,
}

impl VmLink {
    /// The channel of a machine that runs.
    pub fn new(vm: Vm) -> Self {
        Self { vm, connected: false }
    }
}

impl Link for VmLink {
    fn connect(&mut self) -> Result<LinkEnds, LinkError> {
        let gone = |message: String| LinkError {
            message,
            hint: None,
            class: ExitClass::Io,
            may_pass: false,
        };
        if self.connected {
            return Err(gone("the virtual machine is gone".to_owned()));
        }
        self.connected = true;
        let ends = || Ok((self.vm.channel()?, self.vm.channel()?));
        let (input, output) = ends().map_err(|error: std::io::Error| gone(error.to_string()))?;
        Ok(LinkEnds { input: Box::new(input), output: Box::new(output) })
    }

    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    fn silence(&self) -> Duration {
        match self.vm.facts().speed {
            ClockSpeed::RealTime => SILENCE,
            ClockSpeed::Counted { .. } => COUNTED_SILENCE,
        }
    }

    fn last_error_line(&mut self) -> Option<String> {
        Some(format!("its console said last: {}", self.vm.last_error_line()?))
    }

    fn advice(&self, error: &TrialError) -> Option<String> {
        let message = error.to_string();
        let signs = ["no space left", "No space left", "Out of memory"];
        signs.iter().any(|sign| message.contains(sign)).then(|| {
            "a virtual machine has its files in its memory; begin a run with more: --memory SIZE"
                .to_owned()
        })
    }

    fn place(&self) -> String {
        "the virtual machine".to_owned()
    }
}
