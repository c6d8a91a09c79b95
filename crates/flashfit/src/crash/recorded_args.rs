//! Arguments of `flashfit crash replay` and `shrink`: one state of a directory.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  flashfit crash replay crash-run ext4:nobarrier/1/3 --keep-image"
)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub state: RecordedStateArgs,
    /// File of the recorded workload, if it was your own: its commands run again.
    #[arg(long, value_name = "FILE")]
    pub workload: Option<String>,
    /// Write the device as it was after the power cut to an image file in the directory.
    #[arg(long)]
    pub keep_image: bool,
    /// Write the recorded requests to a file in the directory, in the format of dm-log-writes.
    #[arg(long)]
    pub dm_log: bool,
}

#[derive(Debug, Args)]
pub struct RecordedStateArgs {
    /// Directory of `crash states`, or for `replay` of `crash cuts`.
    pub dir: PathBuf,
    /// A state, as the directory's records and the examples call it.
    pub id: String,
    /// Kernel of the virtual machine, if one checked the states [default: as for `crash states`].
    #[arg(long, value_name = "FILE")]
    pub vm_kernel: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  flashfit crash shrink crash-run btrfs/1/200")]
pub struct ShrinkArgs {
    #[command(flatten)]
    pub state: RecordedStateArgs,
    /// For the message that such work cannot be shortened.
    #[arg(long, value_name = "FILE", hide = true)]
    pub workload: Option<String>,
}
