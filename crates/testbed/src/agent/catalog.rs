//! Loads the user's catalog, which the client sends because the agent only has the built-in one.

use std::path::{Component, Path};

use flashfit_bench::Workloads;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_user_error::{ExitClass, UserError};

use crate::protocol::{ClientHello, WireFailure};

/// Writes the files of `hello` to `folder` and loads them over the built-in catalog.
pub fn load(
    hello: &ClientHello,
    folder: &Path,
) -> Result<(FileSystemCatalog, Workloads), WireFailure> {
    for (path, text) in &hello.catalog {
        let path = Path::new(path);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(plain) {
            let why = format!("{}: not a relative path inside a catalog", path.display());
            return Err(WireFailure::stopped(ExitClass::Usage, why, None));
        }
        let file = folder.join(path);
        let parent = file.parent().expect("it is in the folder");
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file, text)).map_err(
            |error| {
                let why = format!("cannot write {}: {error}", file.display());
                WireFailure::stopped(ExitClass::Environment, why, Some("make room in /tmp".into()))
            },
        )?;
    }
    let failure = |error: &dyn UserError| {
        WireFailure::stopped(error.class(), error.to_string(), error.hint())
    };
    let filesystems = FileSystemCatalog::load(Some(folder)).map_err(|error| failure(&error))?;
    let workloads = Workloads::load(Some(folder)).map_err(|error| failure(&error))?;
    Ok((filesystems, workloads))
}
