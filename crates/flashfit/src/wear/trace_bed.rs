//! The test beds of `flashfit wear record`: here or a virtual machine, with cards that record
//! what they are asked.

use std::ffi::OsString;
use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_host::SystemRunner;
use flashfit_host::private_folder::PrivateFolder;
use flashfit_testbed::vm::{VmContext, VmHost};
use flashfit_testbed::{CardProgram, Host, LocalHost, TestBedSpec};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::commands::card_server;
use crate::test_beds::BUILD;
use crate::wear::life_args::WearRecordArgs;

pub const MEMORY: Bytes = Bytes::mib(256);

/// What the test beds of recordings are made with.
pub struct TraceBed<'a> {
    pub filesystems: &'a FileSystemCatalog,
    pub catalog: Option<&'a Path>,
    pub trace_file: &'a Path,
}

impl<'a> TraceBed<'a> {
    pub fn host(
        &self,
        args: &WearRecordArgs,
        runner: &'a SystemRunner,
        folder: &PrivateFolder,
    ) -> Result<Box<dyn Host + 'a>, CommandError> {
        let serving = self.serving_args();
        let cards = CardProgram {
            program: card_server::program(),
            args: Box::new(serving.clone()),
            catalog_args: card_server::catalog_args(self.catalog),
        };
        let local = LocalHost::new(
            runner,
            self.filesystems,
            cards,
            &folder.join("mnt"),
            &folder.join("scratch"),
        );
        let choice = match &args.on {
            TestBedSpec::Here => return Ok(Box::new(local)),
            TestBedSpec::Vm(choice) => choice.clone(),
            other => {
                return Err(CommandError::new(
                    ExitClass::Usage,
                    format!("cannot record {}", other.whereabouts()),
                    Some("use --on here or --on vm"),
                ));
            }
        };
        let program = std::env::current_exe().map_err(|error| {
            let message = format!("cannot find this program's own file: {error}");
            CommandError::new(ExitClass::Environment, message, None)
        })?;
        let context = VmContext {
            runner,
            catalog: self.filesystems,
            local,
            program,
            card_args: Box::new(move |name, socket| {
                let mut args = serving(name);
                args.push(flag("--nbd=", socket));
                args
            }),
            version: BUILD.to_owned(),
            catalog_dir: self.catalog.map(Path::to_owned),
            seed: args.seed,
            memory_bytes: MEMORY.0,
            data_bytes: args.data_size.0,
            fill_hundredths: args.fill_percent * 100,
        };
        Ok(Box::new(VmHost::new(context, choice)))
    }

    /// The arguments that serve a card and record its requests.
    fn serving_args(&self) -> impl Fn(&str) -> Vec<OsString> + Clone + Send + use<> {
        let (catalog, trace) = (self.catalog.map(Path::to_owned), self.trace_file.to_owned());
        move |name| {
            let mut args = card_server::args(name, catalog.as_deref());
            args.push(flag("--trace=", &trace));
            args
        }
    }
}

/// A flag with a path, which need not be text.
fn flag(name: &str, path: &Path) -> OsString {
    let mut arg = OsString::from(name);
    arg.push(path);
    arg
}
