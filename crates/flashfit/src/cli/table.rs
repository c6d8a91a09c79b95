//! The argument of `--table`, in `plan` and `tune`.

use clap::ValueEnum;
use flashfit_filesystem::PartitionTable;

/// The argument of `--table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableArg {
    /// GUID partition table.
    Gpt,
    /// Table in the master boot record.
    Mbr,
    /// No partition table: the file system takes the whole device.
    None,
}

impl From<TableArg> for PartitionTable {
    fn from(table: TableArg) -> Self {
        match table {
            TableArg::Gpt => Self::Gpt,
            TableArg::Mbr => Self::Mbr,
            TableArg::None => Self::None,
        }
    }
}
