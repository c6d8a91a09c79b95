//! `flashfit wear record`: records what a workload makes a file system write to a simulated card.

use std::path::Path;

use flashfit_bench::{Exercise, StartingState, Workloads};
use flashfit_card::trace;
use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;
use flashfit_host::input_file::read_capped;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_testbed::TestBedSpec;
use flashfit_testbed::recording::{self, Recorded, RecordingRequest};
use flashfit_user_error::ExitClass;
use flashfit_wear::RecordedTrace;
use flashfit_wear::trace_file::TraceHeader;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::rendering::wear::recorded_text;
use crate::signals;
use crate::wear::life_args::WearRecordArgs;
use crate::wear::record_command::again;
use crate::wear::setup_name::SetupName;
use crate::wear::target;
use crate::wear::trace_bed::{MEMORY, TraceBed};

/// Of the requests of one recording.
const TRACE_BYTES_MAX: u64 = 256 << 20;
/// Only names the trial; the exercise replaces it.
const PLACEHOLDER: &str = "sync-files";

/// What was recorded, as printed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct RecordDocument {
    #[serde(flatten)]
    pub header: TraceHeader,
    pub requests: usize,
    pub written_to_card_bytes: u64,
    /// Of the simulated card during the workload.
    pub counters: flashfit_card::Counters,
}

pub fn run(args: &WearRecordArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if args.volume.0 == 0 {
        let message = "--volume 0: a trace in which the programs write nothing shows nothing";
        let hint = "record several times --data-size, such as --volume 256MiB";
        return Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    }
    let model = target::simulated(&args.target, catalog)?;
    let output_file = OutputFile::check(&args.output, OutputKind::Trace, args.force)?;
    let name: SetupName = args.filesystem.parse()?;
    let filesystems = FileSystemCatalog::load(catalog)?;
    let workloads = Workloads::load(catalog)?;
    let environment = |what: &str, error: std::io::Error| {
        CommandError::new(ExitClass::Environment, format!("{what}: {error}"), None)
    };
    let folder = PrivateFolder::new()
        .map_err(|error| environment("cannot create a temporary directory", error))?;
    let served = recording::instant(&model);
    let card_file = folder.join("card.toml");
    let text = toml::to_string(&served).expect("a card model can be written as TOML");
    std::fs::write(&card_file, text)
        .map_err(|error| environment(&card_file.display().to_string(), error))?;
    let trace_file = folder.join("requests.trace");
    let interrupt = signals::interrupt()?;
    let runner = SystemRunner::new(interrupt.clone());
    let bed = TraceBed { filesystems: &filesystems, catalog, trace_file: &trace_file };
    let mut host = bed.host(args, &runner, &folder)?;
    let recorded = recording::record(
        host.as_mut(),
        &RecordingRequest {
            filesystem: filesystems.filesystem(&name.filesystem)?,
            options: &name.options,
            exercise: Exercise {
                kind: args.workload,
                written_bytes: args.volume.0,
                data_bytes: args.data_size.0,
                seed: args.seed,
            },
            state: StartingState {
                fill_hundredths: args.fill_percent * 100,
                age_rounds: args.age,
                varied: false,
            },
            model: &served,
            card_file: &card_file,
            memory_bytes: MEMORY.0,
            workload: workloads.find(PLACEHOLDER)?,
        },
    )
    .map_err(|error| with_other_bed(error.into(), args))?;
    drop(host);
    let bytes = read_capped(&trace_file, TRACE_BYTES_MAX)
        .map_err(|error| environment("cannot read the trace", error.into_io()))?;
    let header = header(args, &recorded, &model);
    let trace = RecordedTrace::from_recording(header, again(args, catalog), &trace::read(&bytes)?)?;
    output_file.write(&trace.to_text())?;
    let document = RecordDocument {
        requests: trace.requests.len(),
        written_to_card_bytes: trace.device_bytes(),
        header: trace.header,
        counters: recorded.counters,
    };
    if args.json {
        output::json(document)
    } else {
        output::print(&recorded_text(&document, &args.output))
    }
}

/// Without root, what a virtual machine can do is done there.
fn with_other_bed(error: CommandError, args: &WearRecordArgs) -> CommandError {
    let is_root = rustix::process::geteuid().is_root();
    match (&args.on, error.class()) {
        (TestBedSpec::Here, ExitClass::Environment) if !is_root => {
            error.with_hint("run it as root, or in a virtual machine: --on vm")
        }
        _ => error,
    }
}

fn header(
    args: &WearRecordArgs,
    recorded: &Recorded,
    model: &flashfit_card::CardModel,
) -> TraceHeader {
    TraceHeader {
        filesystem: recorded.setup.filesystem.clone(),
        options: recorded.setup.options.clone(),
        workload: args.workload.to_string(),
        card: model.name.clone(),
        capacity: model.capacity,
        fill_percent: args.fill_percent,
        age_rounds: args.age,
        data_size: args.data_size,
        written_by_programs: Bytes(recorded.exercised_bytes),
        kernel: recorded.kernel.clone(),
        mkfs: recorded.mkfs.clone(),
        seed: args.seed,
    }
}
