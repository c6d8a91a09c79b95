//! Packing a folder into an image on a file system that was just made: mounted where nobody else
//! sees it, as when it is verified.
//!
//! Limits: what is in the image is not compared with the folder, only its kind is read back.

use flashfit_device::{WriteConsent, making_timeout};
use flashfit_host::Runner;
use flashfit_host::mount::enter_private_namespace;

use crate::error::ApplyError;
use crate::job::{ApplyJob, ImageJob};
use crate::steps::ApplyEvent;
use crate::verify::{ToolReport, ask, mount};

/// Packs the image of `work` on the file system at `place`.
pub(crate) fn pack(
    runner: &dyn Runner,
    on_event: &dyn Fn(&ApplyEvent),
    place: &WriteConsent,
    work: &ApplyJob,
    image: &ImageJob,
) -> Result<(), ApplyError> {
    let folder = tempfile::tempdir().map_err(ApplyError::file(&std::env::temp_dir()))?;
    let point = folder.path();
    let programs = image.packing.programs(&image.folder, point);
    programs.iter().for_each(|program| on_event(&ApplyEvent::Running(program.command_line())));
    // A separate thread, because it takes its mounts with it.
    let packing = || {
        enter_private_namespace()?;
        let mounted = mount(runner, place, work, point)?;
        let limit = making_timeout(place.device().capacity);
        for program in programs {
            runner.run_checked(&program.timeout(limit))?;
        }
        let packed = image.packing.image(point);
        let report = ask(runner, &packed)?;
        // Unmounting writes everything back.
        mounted.unmount()?;
        match report {
            ToolReport::Facts(facts) if facts.kind != image.packing.kind() => {
                let what = format!("the image is {}, not {}", facts.kind, image.packing.kind());
                Err(ApplyError::NotAsPlanned { what: vec![what] })
            }
            ToolReport::NoFileSystem => {
                let what = vec!["there is no image after packing".to_owned()];
                Err(ApplyError::NotAsPlanned { what })
            }
            ToolReport::Facts(_) | ToolReport::MissingTool(_) => Ok(()),
        }
    };
    std::thread::scope(|scope| scope.spawn(packing).join().expect("packing does not panic"))
}
