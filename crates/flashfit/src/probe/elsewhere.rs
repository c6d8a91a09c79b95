//! A probe of a device on another machine: the agent there makes it, and what it printed and wrote
//! is brought back. Leave to write is asked for here, and looked at again by the guard there.

use std::path::Path;

use flashfit_device::{ConsentMethod, Device};
use flashfit_host::SystemRunner;
use flashfit_probe::{ExpectedDevice, ProbeDocument};
use flashfit_target::SIMULATED;
use flashfit_testbed::{Host, ProbeResult, TrialError};
use flashfit_user_error::ExitClass;
use serde_json::{Value, from_value};

use super::announce::WouldProbe;
use super::args::ProbeArgs;
use super::client::{DOCUMENT, placeholder, request, set, words};
use super::result::{all_or_none, mention};
use crate::command_error::CommandError;
use crate::test_beds::ssh;
use crate::{consent, output, signals};

/// Probes `args.target` on `host`.
pub fn probe(args: &ProbeArgs, host: &str, catalog: Option<&Path>) -> Result<(), CommandError> {
    let runner = SystemRunner::new(signals::interrupt()?);
    let target = args.target.as_deref().expect("importing does not use another machine");
    // An agent that a probe of the same device has left is in the way of this one.
    let token = ssh::token(Path::new(&format!("{host}:{target}")));
    let mut place = ssh::reach(host, &token, &runner, catalog)?;
    let mut words = words(args, target, host);
    if !target.starts_with(SIMULATED) {
        // Also where nothing is written: the hints of its errors are for this machine.
        let device = place.inspect(target)?;
        if args.write && !args.dry_run {
            let named = agreed(args, &device, &mut place, (&words, host))?;
            let shown = ExpectedDevice::of(&device).text();
            words.extend(["--confirm".to_owned(), named, "--shown".to_owned(), shown]);
        }
    }
    words.extend(set("--dry-run", args.dry_run).into_iter().chain(set("--json", args.json)));
    let made = place.probe(&request(words))?;
    let shown = output::whole_document(&made.stdout);
    let written = args.outputs().map(|(path, kind)| {
        let text = made.files.get(placeholder(kind));
        text.map_or(Ok(()), |text| args.write(path, kind, text))
    });
    let document = made.files.get(DOCUMENT).and_then(|text| serde_json::from_str(text).ok());
    let mentioned = document.map(|document: ProbeDocument| mention(args, &document));
    let after = [shown].into_iter().chain(written).chain(mentioned).filter_map(Result::err);
    let lost: Vec<_> = after.collect();
    all_or_none(ended(&made, host).err().into_iter().chain(lost))
}

/// The name by which the user agrees, after the cost was shown that a dry run finds.
fn agreed(
    args: &ProbeArgs,
    device: &Device,
    place: &mut dyn Host,
    (words, host): (&[String], &str),
) -> Result<String, CommandError> {
    match place.check_consent(device, &ConsentMethod::NotAsked) {
        Ok(()) | Err(TrialError::NotAgreed { .. }) => {}
        Err(refused) => return Err(refused.into()),
    }
    let dry_run = ["--dry-run", "--json"].map(str::to_owned);
    let made = place.probe(&request([words, &dry_run].concat()))?;
    if made.code != Some(0) {
        ended(&made, host)?;
    }
    let data = |mut document: Value| document.get_mut("data").map(Value::take).unwrap_or_default();
    let would = serde_json::from_str(&made.stdout).and_then(|read| from_value(data(read)));
    let would: WouldProbe = would.map_err(|error| {
        let message = format!("the dry run on {host} cannot be understood: {error}");
        CommandError::new(ExitClass::Bug, message, None)
    })?;
    would.consequences().iter().for_each(|text| output::note(text));
    let mut guard = |given: &_| place.check_consent(device, given);
    Ok(consent::agreed_to(device, args.confirm.as_deref(), None, &mut guard)?)
}

/// Prints what was printed there, and ends with the same exit code.
fn ended(made: &ProbeResult, host: &str) -> Result<(), CommandError> {
    let (mut message, mut hint) = (None, None);
    for line in made.stderr.lines() {
        if let Some(text) = line.strip_prefix("error: ") {
            message = Some(text);
        } else if let Some(text) = line.strip_prefix("hint: ") {
            hint = Some(text);
        } else {
            output::note(line);
        }
    }
    let class = match made.code {
        Some(0) => return Ok(()),
        Some(code) => u8::try_from(code).map_or(ExitClass::Bug, ExitClass::of_code),
        None => return Err(CommandError::new(ExitClass::Io, "the probe was killed there", None)),
    };
    // Hints about arguments and verdicts are not for the machine.
    let is_for_host = matches!(class, ExitClass::Refused | ExitClass::Environment | ExitClass::Io);
    let place = if is_for_host { format!("on {host}: ") } else { String::new() };
    let hint = hint.map(|hint| format!("{place}{hint}"));
    Err(CommandError::new(class, message.unwrap_or("the probe failed"), hint.as_deref()))
}
