//! A plan's file system made and mounted on a scratch image, before a device is touched.
//!
//! Limits: the second partition and a packed image are not tried. Where the machine lacks what a
//! trial needs, such as room, no option is refused.

use flashfit_device::Bytes;
use flashfit_filesystem::{FileSystem, FileSystemCatalog, Plan, Recipe, Setup};
use flashfit_host::mount::enter_private_namespace;
use flashfit_host::{Runner, capability};

use crate::absent::AbsentOption;
use crate::attempt::{AttemptResult, AttemptTools};
use crate::finding::OptionEvidence;
use crate::kernel;
use crate::scratch::ScratchImages;

/// The options of a plan that mkfs, the tuning program or mount refuse on a sparse image of the
/// partition's size.
pub fn refused_in_rehearsal(
    runner: &dyn Runner,
    catalog: &FileSystemCatalog,
    plan: &Plan,
) -> Vec<AbsentOption> {
    // Mounts of a thread's namespace end with the thread, and nobody else sees them.
    std::thread::scope(|scope| {
        let trying = scope.spawn(|| rehearse(runner, catalog, plan).unwrap_or_default());
        trying.join().expect("trying a plan does not panic")
    })
}

fn rehearse(
    runner: &dyn Runner,
    catalog: &FileSystemCatalog,
    plan: &Plan,
) -> Option<Vec<AbsentOption>> {
    let filesystem = catalog.filesystem(plan.filesystem()).ok()?;
    let names = &plan.choices.setup.options;
    if filesystem.mkfs.from_folder || names.is_empty() {
        return None;
    }
    let attaching = capability::missing_for_block_devices().is_none();
    let mounting = attaching && kernel::has(&filesystem.kind) && enter_private_namespace().is_ok();
    let scratch = ScratchImages::new(&std::env::temp_dir(), Some(false)).ok()?;
    let partition = plan.partitions.first().map(|partition| partition.size_bytes);
    let size = Bytes(partition.unwrap_or(plan.device.capacity_bytes));
    let bench =
        AttemptTools { runner, scratch: &scratch, size, packing: false, attaching, mounting };
    let whole = refusal(&bench, &plan.recipe(catalog).ok()?)?;
    // Which one it is shows when each is tried alone, with what it implies.
    let alone = |name: &String| {
        let recipe = recipe_of_one(catalog, filesystem, plan, name)?;
        Some(absent(filesystem, name, &refusal(&bench, &recipe)?))
    };
    let found: Vec<AbsentOption> = names.iter().filter_map(alone).collect();
    if !found.is_empty() {
        return Some(found);
    }
    // Without options it may be refused too; then none of them is to blame.
    let base = recipe_with(catalog, plan, Vec::new())?;
    match refusal(&bench, &base) {
        Some(_) => None,
        None => Some(vec![absent(filesystem, &names.join("`, `"), &whole)]),
    }
}

fn absent(filesystem: &FileSystem, option: &str, evidence: &OptionEvidence) -> AbsentOption {
    AbsentOption {
        filesystem: filesystem.name.clone(),
        option: option.to_owned(),
        reason: format!("it is refused here ({}: {})", evidence.place.title(), evidence.text),
    }
}

/// Why the file system cannot be made or mounted; `None` where it can, or where that is unknown.
fn refusal(bench: &AttemptTools<'_>, recipe: &Recipe) -> Option<OptionEvidence> {
    match bench.attempt(recipe, recipe.mount_options()) {
        Ok(AttemptResult::NotMade(evidence) | AttemptResult::NotMounted(_, evidence)) => {
            evidence.into_iter().next()
        }
        _ => None,
    }
}

fn recipe_of_one(
    catalog: &FileSystemCatalog,
    filesystem: &FileSystem,
    plan: &Plan,
    name: &str,
) -> Option<Recipe> {
    let closure = filesystem.closure([name]).ok()?;
    recipe_with(catalog, plan, closure.iter().map(|option| option.name.clone()).collect())
}

fn recipe_with(catalog: &FileSystemCatalog, plan: &Plan, options: Vec<String>) -> Option<Recipe> {
    let mut inputs = plan.inputs();
    inputs.choices.setup = Setup { options, ..inputs.choices.setup };
    Plan::of(catalog, &inputs).ok()?.recipe(catalog).ok()
}
