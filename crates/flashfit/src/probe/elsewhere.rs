//! A probe of a device on another machine: the agent there makes it, and what it printed and wrote
//! is brought back. Leave to write is asked for here, and looked at again by the guard there.

use std::path::{Path, PathBuf};

use flashfit_host::{SystemRunner, path_text};
use flashfit_probe::ExpectedDevice;
use flashfit_target::SIMULATED;
use flashfit_testbed::{Host, ProbeRequest};
use flashfit_user_error::ExitClass;

use super::args::ProbeArgs;
use super::result::all_or_none;
use crate::command_error::CommandError;
use crate::signals;
use crate::test_beds::ssh;
use crate::{consent, output};

/// Probes `args.target` on `host`.
pub fn probe(args: &ProbeArgs, host: &str, catalog: Option<&Path>) -> Result<(), CommandError> {
    let runner = SystemRunner::new(signals::interrupt()?);
    let target = args.target.as_deref().expect("importing does not use another machine");
    // An agent that a probe of the same device has left is in the way of this one.
    let token = ssh::token(Path::new(&format!("{host}:{target}")));
    let mut place = ssh::reach(host, &token, &runner, catalog)?;
    let named = match args.write && !args.dry_run && !target.starts_with(SIMULATED) {
        true => {
            let device = place.inspect(target)?;
            let mut guard = |given: &_| place.check_consent(&device, given);
            let named = consent::agreed(&device, args.confirm.as_deref(), &mut guard)?;
            Some((named, ExpectedDevice::of(&device).text()))
        }
        false => None,
    };
    let made = place.probe(&wanted(args, target, named))?;
    let shown = output::whole_document(&made.stdout);
    let written = args.outputs().map(|(path, kind)| {
        let text = made.files.get(&path_text::to_text(path));
        text.map_or(Ok(()), |text| args.write(path, kind, text))
    });
    let lost: Vec<_> = std::iter::once(shown).chain(written).filter_map(Result::err).collect();
    all_or_none(ended(made.code, &made.stderr).err().into_iter().chain(lost))
}

/// The same probe as it is typed there.
fn wanted(args: &ProbeArgs, target: &str, agreed: Option<(String, String)>) -> ProbeRequest {
    let mut words = vec![target.to_owned(), "--seed".to_owned(), args.seed.to_string()];
    let flags = [("--write", args.write), ("--dry-run", args.dry_run), ("--json", args.json)];
    words.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.to_owned()));
    let region = args.region.map(|region| format!("{}+{}", region.start.0, region.length.0));
    let max_write = args.max_write.map(|most| most.0.to_string());
    let max_time = args.max_time.map(|most| most.to_string());
    let path = |path: &Option<PathBuf>| path.as_deref().map(path_text::to_text);
    let (named, shown) = agreed.unzip();
    let values = [
        ("--confirm", named),
        ("--shown", shown),
        ("--region", region),
        ("--max-write", max_write),
        ("--max-time", max_time),
        ("--twin", path(&args.twin)),
        ("--svg", path(&args.svg)),
        ("--output", path(&args.output)),
    ];
    for (flag, value) in values {
        words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    }
    let files = args.outputs().map(|(path, _)| path_text::to_text(path)).collect();
    ProbeRequest { args: words, files }
}

/// Prints what was printed there, and ends with the same exit code.
fn ended(code: Option<i32>, stderr: &str) -> Result<(), CommandError> {
    let (mut message, mut hint) = (None, None);
    for line in stderr.lines() {
        if let Some(text) = line.strip_prefix("error: ") {
            message = Some(text);
        } else if let Some(text) = line.strip_prefix("hint: ") {
            hint = Some(text);
        } else {
            output::note(line);
        }
    }
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let class = u8::try_from(code).map_or(ExitClass::Bug, ExitClass::of_code);
            Err(CommandError::new(class, message.unwrap_or("the probe failed"), hint))
        }
        None => Err(CommandError::new(ExitClass::Io, "the probe was killed there", None)),
    }
}
