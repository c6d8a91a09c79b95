//! The user's own catalog, which comes with the one who asks: an agent's machine knows only what
//! is built in.

use std::path::{Component, Path};

use flashfit_bench::Workloads;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_user_error::{ExitClass, UserError};

use crate::protocol::{ClientHello, WireFailure};

/// Loads the built-in catalog with the files of `hello` over it, which are written to `folder`.
pub fn load(
    hello: &ClientHello,
    folder: &Path,
) -> Result<(FileSystemCatalog, Workloads), WireFailure> {
    for (path, text) in &hello.catalogue {
        let path = Path::new(path);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !path.components().all(plain) {
            let why = format!("{} is no path of a catalogue", path.display());
            return Err(WireFailure::stopped(ExitClass::Usage, why, None));
        }
        let file = folder.join(path);
        let parent = file.parent().expect("it is in the folder");
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&file, text)).map_err(
            |error| {
                let why = format!("cannot write {}: {error}", file.display());
                WireFailure::stopped(ExitClass::Environment, why, Some("make room in /tmp"))
            },
        )?;
    }
    let failure = |error: &dyn UserError| {
        WireFailure::stopped(error.class(), error.to_string(), error.hint().as_deref())
    };
    let filesystems = FileSystemCatalog::load(Some(folder)).map_err(|error| failure(&error))?;
    let workloads = Workloads::load(Some(folder)).map_err(|error| failure(&error))?;
    Ok((filesystems, workloads))
}
