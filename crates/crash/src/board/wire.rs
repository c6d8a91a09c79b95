//! What this machine and the program on a board say to each other, besides what a guest is told.
//!
//! Descriptions of devices travel as JSON, because `postcard` cannot leave out fields.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_host::Program;
use flashfit_user_error::Hint;
use serde::{Deserialize, Serialize};

use crate::cuts::wire::{GuestReply, GuestRequest};

/// Stands for the device in the arguments of programs.
pub const DEVICE: &str = "DEVICE";

/// A program that works on the open device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProgram {
    pub name: String,
    /// With [`DEVICE`] in the place of the device.
    pub arguments: Vec<String>,
}

impl DeviceProgram {
    /// A program that was made for a device of the name [`DEVICE`].
    pub fn new(program: &Program) -> Self {
        let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
        Self {
            name: program.name().to_owned(),
            arguments: program.arguments().iter().map(text).collect(),
        }
    }

    /// The same for the device of this name.
    pub fn on(&self, node: &Path) -> Program {
        let argument = |word: &String| match word.as_str() {
            DEVICE => node.as_os_str().to_owned(),
            other => other.into(),
        };
        Program::new(self.name.as_str()).args(self.arguments.iter().map(argument))
    }
}

/// The partition of a whole disk in which the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardPartition {
    pub start_bytes: u64,
    pub size_bytes: u64,
}

impl BoardPartition {
    pub fn size(&self) -> Bytes {
        Bytes(self.size_bytes)
    }
}

/// What the board is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardRequest {
    /// Open the device that the user agreed to by this name, and keep it open; with `makes`, write
    /// the partition table.
    Open {
        device_json: String,
        name: String,
        partition: Option<BoardPartition>,
        makes: bool,
    },
    /// Make a new file system.
    Make {
        programs: Vec<DeviceProgram>,
    },
    /// Check the unmounted device.
    Check {
        program: DeviceProgram,
    },
    Repair {
        program: DeviceProgram,
    },
    Guest(GuestRequest),
}

/// What the board answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardReply {
    Opened(BoardFacts),
    Made,
    /// What a checking program found, or why a repair failed.
    Said(Option<String>),
    Guest(GuestReply),
    Failed(BoardFailure),
}

/// The system of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardFacts {
    pub kernel: String,
    /// Another one after every start.
    pub boot_id: String,
}

/// Why the board cannot do something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardFailure {
    pub message: String,
    pub hint: Option<Hint>,
    /// The exit code of its class.
    pub code: u8,
}
