//! `flashfit plan TARGET`: layouts and commands that fit a device, with the reason for every
//! number. Nothing is written but the plan's own file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use flashfit_card::CardModel;
use flashfit_device::{Bytes, Device, SystemRoots, Target};
use flashfit_filesystem::plan::{
    Plan, PlanError, PlanRequest, PlannedMedium, PublishedRecipe, PublishedRecipes, StripeWidth,
    choose, choose_layered, file, units,
};
use flashfit_filesystem::{
    Durability, FileSystem, FileSystemCatalog, LayoutStart, PartitionTable, Scheduler, scheduler,
};
use flashfit_geometry::Geometry;
use flashfit_host::SystemRunner;
use flashfit_testbed::writable_device;
use flashfit_user_error::ExitClass;
use serde::Serialize;

use crate::cli::{durability, size, text_path};
use crate::command_error::CommandError;
use crate::consent;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::saved as probed;
use crate::rendering;
use crate::tune::resolve;

/// The scheduler of a device that is not attached yet: what the kernel gives a device with one
/// queue.
const USUAL_SCHEDULER: &str = "mq-deadline";

const EXAMPLES: &str = "\
Examples:
  flashfit plan /dev/mmcblk0
  flashfit plan /dev/mmcblk0 --fs ext4 --erase-block 8MiB --write-unit 8KiB
  flashfit plan /dev/mmcblk0 --geometry geometry.json
  flashfit plan sim:sd-c4-block --fs f2fs --output plan.json
  flashfit plan /dev/sdb --fs squashfs --host f2fs
  flashfit plan card.img --recipe dreamplug --allow may-corrupt

Recipes are layouts that others published for their own cards: dreamplug,
gentoo, linutop, pandora.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Device node, image file or sim:NAME (a simulated card).
    pub target: String,
    /// File systems, separated by commas [default: all that are safe and fit].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Options of the file system, separated by commas, or base for none [default: geometry and
    /// noatime].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub options: Option<Vec<String>>,
    /// File system that holds a read-only image (squashfs) and its writable layer [default: the
    /// first suitable one that is safe].
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// I/O scheduler [default: the current one].
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Partition table.
    #[arg(long, value_enum)]
    pub table: Option<TableArg>,
    /// Start of the partition: auto, whole (no partition table) or a position such as 4MiB or 63s
    /// (sectors).
    #[arg(long, value_name = "WHERE")]
    pub start: Option<String>,
    /// Erase block size, if you know it better than the device reports it.
    #[arg(
        long = "erase-block",
        alias = "erase-unit",
        value_name = "SIZE",
        value_parser = size
    )]
    pub erase_unit: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Geometry file written by `flashfit probe --output`. Where it and the device disagree, the
    /// plan suits both.
    #[arg(long, value_name = "FILE")]
    pub geometry: Option<PathBuf>,
    /// Mount point of the file system.
    #[arg(long, value_name = "DIR", default_value = "/mnt/flash", value_parser = text_path)]
    pub mount_point: PathBuf,
    /// Use a published recipe for everything that is not given.
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// What a power cut may do: safe, loses-recent, breaks-promise or may-corrupt; see
    /// `flashfit tune --help`.
    #[arg(long, value_name = "DURABILITY", value_parser = durability, default_value = "safe")]
    pub allow: Durability,
    /// Write the plan to a file, for `flashfit apply`. Needs exactly one file system.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file even if flashfit did not write it.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

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

/// A device, looked at for a plan.
pub struct PlanSubject {
    /// The device.
    pub medium: PlannedMedium,
    /// What it declares, or its model states.
    pub declared: Geometry,
    /// The scheduler in use, where it is a device.
    pub scheduler: Option<String>,
    /// Why the plan could not be applied now, where that is known.
    pub objection: Option<String>,
}

/// All that is shown.
#[derive(Debug, Serialize)]
pub struct PlanList {
    /// The device as the user named it.
    pub target: String,
    /// The plans, in the catalog's order.
    pub plans: Vec<Plan>,
    /// File systems without a plan.
    pub others: Vec<UnplannedFileSystem>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// A file system that has no plan here.
#[derive(Debug, Serialize)]
pub struct UnplannedFileSystem {
    /// Its name.
    pub filesystem: String,
    /// Why.
    pub reason: String,
}

pub fn run(args: &PlanArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let catalogue = FileSystemCatalog::load(catalog)?;
    let recipes = PublishedRecipes::load(catalog)?;
    let recipe = args.recipe.as_deref().map(|name| recipes.find(name)).transpose()?;
    let subject = look(&args.target, catalog)?;
    usable(args, &subject)?;
    let mut notes = Vec::new();
    let probed = probed::read(args.geometry.as_deref(), &subject.medium, &mut notes)?;
    let given = given(args, &probed, recipe, &subject, &mut notes);
    let wish = wish(args, recipe, &subject, &mut notes)?;
    let names = args.filesystems.clone().or(recipe.map(|recipe| vec![recipe.filesystem.clone()]));
    let mut plans = Vec::new();
    let mut others = Vec::new();
    let chosen = chosen(&catalogue, names.as_deref())?;
    let host = host(args, &chosen)?;
    for filesystem in &chosen {
        let wish = permitted(filesystem, &wish, recipe.is_some(), &mut notes);
        let made = unrequested(filesystem, names.is_some(), args.allow).map_or_else(
            || make(&catalogue, filesystem, host.as_deref(), &subject, &given, &wish),
            Err,
        );
        match made {
            Ok(plan) => plans.push(plan),
            Err(error) if names.is_some() => return Err(error),
            Err(error) => {
                let reason = error.message().to_owned();
                others.push(UnplannedFileSystem { filesystem: filesystem.name.clone(), reason });
            }
        }
    }
    notes.extend(plans.first().and_then(|plan| alike(plan, &recipes)));
    notes.extend(subject.objection);
    if let Some(path) = &args.output {
        write(path, args.force, &plans)?;
    }
    let found = PlanList { target: args.target.clone(), plans, others, notes };
    let is_empty = found.plans.is_empty();
    if args.json {
        output::json("plans", found)?;
    } else {
        output::print(&rendering::plan::text(&found, output::width()))?;
    }
    if is_empty {
        let text = format!("there is no plan for {}", args.target);
        return Err(CommandError::new(ExitClass::BadVerdict, text, None));
    }
    Ok(())
}

/// Refuses what would be wrong in every plan.
fn usable(args: &PlanArgs, subject: &PlanSubject) -> Result<(), CommandError> {
    if !args.mount_point.is_absolute() {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("the mount point {} does not begin with /", args.mount_point.display()),
            Some("fstab takes whole paths: --mount-point /mnt/flash"),
        ));
    }
    let sector = Bytes(subject.medium.sector_bytes);
    let is_whole = |bytes: Bytes| bytes.0 > 0 && bytes.0 % sector.0.max(1) == 0;
    match args.erase_unit {
        Some(unit) if !is_whole(unit) => Err(CommandError::new(
            ExitClass::Usage,
            format!("an erase unit of {} bytes is not made of sectors of {}", unit.0, sector.0),
            Some("4MiB are 4194304 bytes, 4MB are 4000000: --erase-block 4MiB"),
        )),
        _ => Ok(()),
    }
}

/// Looks at a target without opening it for writing.
pub fn look(target: &str, catalog: Option<&Path>) -> Result<PlanSubject, CommandError> {
    let runner = SystemRunner::default();
    let medium = match Target::parse(target)? {
        Target::Simulated(name) => {
            let model = flashfit_card::catalog::load(&name, catalog)?;
            return Ok(PlanSubject {
                medium: simulated(&name, &model),
                declared: writable_device::modeled_geometry(&model),
                scheduler: None,
                objection: None,
            });
        }
        Target::Node(path) => Device::from_node(&SystemRoots::default(), &runner, &path)?,
        Target::Image(path) => Device::from_image(&runner, &path)?,
    };
    Ok(PlanSubject {
        declared: writable_device::declared_geometry(&medium),
        scheduler: medium.queue.scheduler.clone(),
        objection: consent::would_be_refused(&medium),
        medium: PlannedMedium::of(&medium),
    })
}

/// A simulated card as a plan takes it.
pub fn simulated(name: &str, model: &CardModel) -> PlannedMedium {
    PlannedMedium::simulated(
        name,
        model.capacity.0,
        u64::from(model.sector_bytes),
        model.discard.is_some(),
        model.cache.is_some(),
    )
}

/// What the flags give, or else a probe found. The geometry of a recipe is that of its author's
/// card, so it is taken only where nothing else is known.
fn given(
    args: &PlanArgs,
    probed: &Geometry,
    recipe: Option<&PublishedRecipe>,
    subject: &PlanSubject,
    notes: &mut Vec<String>,
) -> Geometry {
    let given = Geometry {
        erase_unit: units::given(args.erase_unit),
        write_unit: units::given(args.write_unit),
    };
    let given = given.or(probed.clone());
    let Some(recipe) = recipe else { return given };
    if given.erase_unit.is_some() || subject.declared.erase_unit.is_some() {
        return given;
    }
    notes.push(format!(
        "nothing is known of this medium's erase unit, so {} of the recipe is taken: it was found \
         on its author's card",
        recipe.erase_unit
    ));
    given.or(recipe.geometry())
}

fn wish(
    args: &PlanArgs,
    recipe: Option<&PublishedRecipe>,
    subject: &PlanSubject,
    notes: &mut Vec<String>,
) -> Result<PlanRequest, CommandError> {
    let (table, start_bytes) = place(args, recipe, subject)?;
    let named = args.scheduler.clone().or(recipe.and_then(|recipe| recipe.scheduler.clone()));
    let scheduler = match named {
        Some(name) => {
            let understood = scheduler::understand(&name)?;
            notes.extend(understood.note);
            understood.scheduler
        }
        None => Scheduler::new(subject.scheduler.as_deref().unwrap_or(USUAL_SCHEDULER)),
    };
    Ok(PlanRequest {
        table,
        start_bytes,
        options: args.options.clone().or(recipe.map(|recipe| recipe.options.clone())),
        scheduler,
        stripe_width: recipe.map_or(StripeWidth::Blocks, |recipe| recipe.stripe_width),
        recipe: recipe.map(|recipe| recipe.name.clone()),
        mount_point: args.mount_point.clone(),
        allow: args.allow,
    })
}

/// Table and start: as given, or else as the recipe has them where the target is a whole device.
fn place(
    args: &PlanArgs,
    recipe: Option<&PublishedRecipe>,
    subject: &PlanSubject,
) -> Result<(Option<PartitionTable>, Option<u64>), CommandError> {
    let table = args.table.map(PartitionTable::from);
    match args.start.as_deref().map(resolve::start).transpose()? {
        Some(LayoutStart::Whole) if table.is_some_and(|table| table != PartitionTable::None) => {
            Err(CommandError::new(
                ExitClass::Usage,
                "--start whole leaves no room for a partition table",
                Some("leave out --table or --start"),
            ))
        }
        Some(LayoutStart::At(_)) if table == Some(PartitionTable::None) => Err(CommandError::new(
            ExitClass::Usage,
            "without a partition table the file system starts where the medium starts",
            Some("leave out --table or --start"),
        )),
        Some(LayoutStart::Whole) => Ok((Some(PartitionTable::None), None)),
        Some(LayoutStart::At(at)) => Ok((table, Some(at.0))),
        Some(LayoutStart::Auto) => Ok((table, None)),
        None if table.is_some() || subject.medium.partition_start_bytes.is_some() => {
            Ok((table, None))
        }
        None => Ok(recipe.map_or((None, None), |recipe| {
            let start = (recipe.table != PartitionTable::None).then_some(recipe.start.0);
            (Some(recipe.table), start)
        })),
    }
}

/// The wish without those options of a recipe that are less safe than is allowed: who names a
/// recipe has not named each of its options.
fn permitted(
    filesystem: &FileSystem,
    wish: &PlanRequest,
    by_recipe: bool,
    notes: &mut Vec<String>,
) -> PlanRequest {
    let mut wish = wish.clone();
    let (Some(options), true) = (&mut wish.options, by_recipe) else { return wish };
    options.retain(|name| {
        let Ok(option) = filesystem.option(name) else { return true };
        let allowed = option.durability <= wish.allow;
        if !allowed {
            notes.push(format!(
                "`{name}` of the recipe is left out: {} Agree with --allow {}.",
                option.risk, option.durability
            ));
        }
        allowed
    });
    wish
}

fn chosen<'a>(
    catalogue: &'a FileSystemCatalog,
    names: Option<&[String]>,
) -> Result<Vec<&'a FileSystem>, CommandError> {
    match names {
        None => Ok(catalogue.filesystems().iter().collect()),
        Some(names) => names
            .iter()
            .map(|name| catalogue.filesystem(name).map_err(CommandError::from))
            .collect(),
    }
}

/// What an image is to lie on, where that is said.
fn host(args: &PlanArgs, chosen: &[&FileSystem]) -> Result<Option<String>, CommandError> {
    let layered = chosen.iter().find_map(|filesystem| filesystem.layered.as_ref());
    match (layered, &args.host) {
        (None, Some(name)) => Err(CommandError::new(
            ExitClass::Usage,
            format!("--host {name}: none of the file systems is an image that would lie on it"),
            Some("leave --host out, or name an image such as --fs squashfs"),
        )),
        (_, Some(name)) => Ok(Some(name.clone())),
        (None, None) => Ok(None),
        (Some(_), None) if args.filesystems.is_none() => Ok(None),
        (Some(layered), None) => {
            let can = |filesystem: &&&FileSystem| {
                layered.hosts.contains(&filesystem.name) && filesystem.durability <= args.allow
            };
            Ok(chosen.iter().find(can).map(|filesystem| filesystem.name.clone()))
        }
    }
}

/// Why a file system is not planned without being named.
fn unrequested(filesystem: &FileSystem, named: bool, allow: Durability) -> Option<CommandError> {
    if filesystem.layered.is_some() && !named {
        let name = &filesystem.name;
        let reason = format!("it is packed from a folder of yours. Name it with --fs {name}.");
        return Some(CommandError::new(ExitClass::Usage, reason, None));
    }
    (!named && filesystem.durability > allow).then(|| {
        CommandError::new(
            ExitClass::Refused,
            format!(
                "{}: {} Name it with --fs {}.",
                filesystem.durability, filesystem.risk, filesystem.name
            ),
            None,
        )
    })
}

fn make(
    catalogue: &FileSystemCatalog,
    filesystem: &FileSystem,
    host: Option<&str>,
    subject: &PlanSubject,
    given: &Geometry,
    wish: &PlanRequest,
) -> Result<Plan, CommandError> {
    let made = || -> Result<Plan, PlanError> {
        let medium = subject.medium.clone();
        let (given, declared) = (given.clone(), subject.declared.clone());
        let inputs = if filesystem.layered.is_some() {
            choose_layered(catalogue, filesystem, host, medium, [given, declared], wish)?
        } else {
            choose(filesystem, medium, given, declared, wish)?
        };
        Plan::of(catalogue, &inputs)
    };
    made().map_err(CommandError::from)
}

/// A recipe that was made for a device built like this one, and where it differs.
fn alike(plan: &Plan, recipes: &PublishedRecipes) -> Option<String> {
    let used = &plan.geometry.used;
    let recipe = recipes.all().iter().find(|recipe| recipe.is_for(used))?;
    let own = plan.choices.recipe.as_deref() == Some(&recipe.name);
    let name = &recipe.name;
    let mut text = if own {
        format!("The recipe `{name}` was made for a medium built like this.")
    } else {
        format!("The recipe `{name}` was made for a medium built like this; see --recipe {name}.")
    };
    if !recipe.differs.is_empty() {
        text.push(' ');
        text.push_str(&recipe.differs);
    }
    Some(text)
}

fn write(path: &Path, force: bool, plans: &[Plan]) -> Result<(), CommandError> {
    let [plan] = plans else {
        return Err(CommandError::new(
            ExitClass::Usage,
            format!("a file holds one plan, and there are {}", plans.len()),
            Some("name one file system, such as --fs ext4"),
        ));
    };
    let output = OutputFile::check(path, OutputKind::Plan, force)?;
    output.write(&file::write(plan, env!("CARGO_PKG_VERSION")))
}
