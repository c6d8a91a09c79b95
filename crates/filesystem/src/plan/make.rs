//! Builds a plan from choices.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_geometry::EraseBlockGrid;

use crate::catalog::FileSystemCatalog;
use crate::conditions::Conditions;
use crate::durability::{Durability, Risk};
use crate::filesystem::{BASE, FileSystem};
use crate::layout::{EXAMPLE_NODE, PartitionTable};
use crate::recipe::Recipe;
use crate::setup::Setup;

use super::advice;
use super::choose::{GEOMETRY, VENDOR};
use super::commands::{self, Programs, table_partitions};
use super::document::{
    Plan, PlanInputs, PlanNumber, PlannedCommand, PlannedGeometry, PlannedPlacement,
};
use super::error::PlanError;
use super::numbers::{self, PlacementNumbers};
use super::placement::{Placement, PlacementChoice, find_placement, off_grid};
use super::second::PlannedSecond;
use super::units;

/// What follows from the choices.
struct Prepared {
    geometry: PlannedGeometry,
    placement: Placement,
    recipe: Recipe,
    warnings: Vec<String>,
}

fn prepare(filesystem: &FileSystem, inputs: &PlanInputs) -> Result<Prepared, PlanError> {
    let PlanInputs { device, given, declared, choices } = inputs;
    let (geometry, warnings) = units::combine(given, declared);
    let placement = find_placement(
        filesystem,
        device,
        &geometry.used,
        PlacementChoice {
            table: choices.table,
            start_bytes: choices.start_bytes,
            end: choices.end,
            stripe_width: choices.stripe_width,
            second: choices.second.as_ref(),
        },
    )?;
    if let (Err(reason), true) = (&placement.fitted, is_fitted(inputs)) {
        return Err(PlanError::Unfit {
            filesystem: filesystem.name.clone(),
            reason: reason.clone(),
        });
    }
    let conditions = placement.conditions(filesystem, device, &geometry.used);
    allowed(filesystem, &choices.setup, choices.allow)?;
    let recipe = Recipe::new(filesystem, &choices.setup, &conditions)?;
    let is_whole =
        placement.table == PartitionTable::None && device.partition_start_bytes.is_none();
    let recipe = if is_whole { recipe.on_whole_device(filesystem) } else { recipe };
    let recipe = match &choices.label {
        None => recipe,
        Some(label) => labeled(recipe, filesystem, label)?,
    };
    Ok(Prepared { geometry, placement, recipe, warnings })
}

/// The recipe with a label.
///
/// # Errors
/// [`PlanError::Label`] where the file system does not take it.
pub fn labeled(recipe: Recipe, filesystem: &FileSystem, label: &str) -> Result<Recipe, PlanError> {
    Ok(recipe.labeled(label_flag(filesystem, label)?, label))
}

/// The flag of mkfs for a label that the file system takes.
///
/// # Errors
/// [`PlanError::Label`].
pub fn label_flag<'a>(filesystem: &'a FileSystem, label: &str) -> Result<&'a str, PlanError> {
    let rule = filesystem.label.as_ref().ok_or("it has no labels".to_owned());
    let fits = rule.and_then(|rule| match rule.why_not(label) {
        None => Ok(rule.flag.as_str()),
        Some(reason) => Err(reason),
    });
    fits.map_err(|reason| PlanError::Label {
        filesystem: filesystem.name.clone(),
        label: label.to_owned(),
        reason,
    })
}

/// Whether mkfs is given the numbers.
fn is_fitted(inputs: &PlanInputs) -> bool {
    has(inputs, GEOMETRY)
}

fn has(inputs: &PlanInputs, name: &str) -> bool {
    inputs.choices.setup.options.iter().any(|option| option == name)
}

pub(super) fn allowed(
    filesystem: &FileSystem,
    setup: &Setup,
    allow: Durability,
) -> Result<(), PlanError> {
    let verdict = setup.durability(filesystem)?;
    // Who names a file system agrees to what it is by itself.
    let too_risky = |risk: &Risk| risk.option != BASE && risk.durability > allow;
    let risk = verdict.risks.into_iter().find(too_risky);
    match risk {
        None => Ok(()),
        Some(risk) => Err(PlanError::NotAllowed {
            filesystem: filesystem.name.clone(),
            option: risk.option,
            durability: risk.durability,
            risk: risk.risk,
        }),
    }
}

impl Plan {
    /// Makes the plan of one file system that follows from these inputs; what an image adds is
    /// left to [`Plan::of`].
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn make(filesystem: &FileSystem, inputs: &PlanInputs) -> Result<Self, PlanError> {
        let prepared = prepare(filesystem, inputs)?;
        let Prepared { geometry, placement, recipe, mut warnings } = prepared;
        let PlanInputs { device, choices, .. } = inputs;
        let node =
            if device.disk.is_empty() { Path::new(EXAMPLE_NODE) } else { device.path.as_path() };
        let programs = commands::programs(
            placement.table,
            &table_partitions(&placement.partitions, &filesystem.kind, choices),
            device.sector_bytes,
            &recipe,
            node,
            &choices.mount_point,
        );
        let conditions = placement.conditions(filesystem, device, &geometry.used);
        let vendor = placement.vendor.filter(|_| has(inputs, VENDOR));
        let stated_numbers = match &vendor {
            None => placement.fitted.as_ref().ok().filter(|_| is_fitted(inputs)),
            vendor => vendor.as_ref(),
        };
        warnings.extend(off_grid(device, &geometry.used, placement.place, stated_numbers));
        let fitted = numbers::adapted(
            &filesystem.kind,
            placement.fitted.unwrap_or_default(),
            placement.place,
            recipe.mkfs_args(),
        );
        let fitted = match (vendor, geometry.used.grid()) {
            (Some(vendor), Some(grid)) => {
                warnings.extend(vendor_off(filesystem, &vendor, placement.place, grid));
                vendor
            }
            (vendor, _) => {
                if is_fitted(inputs) {
                    warnings.extend(fitted.warnings.clone());
                } else {
                    warnings.extend(not_fitted(filesystem, &conditions, &fitted));
                }
                vendor.unwrap_or(fitted)
            }
        };
        let is_stated = is_fitted(inputs) || has(inputs, VENDOR);
        let (numbers, inside) = stated(&fitted, is_stated);
        warnings.extend(before_fat(filesystem));
        let used: u64 = placement.partitions.iter().map(|partition| partition.size_bytes).sum();
        let outside = if used == 0 { 0 } else { device.capacity_bytes - used };
        Ok(Self {
            table: placement.table,
            table_reason: placement.table_reason,
            partitions: placement.partitions,
            place: placement.place,
            setup: choices.setup.clone(),
            numbers,
            commands: commands::written(&programs),
            mount_point: choices.mount_point.clone(),
            fstab_line: recipe.installed_line("UUID=YOUR-UUID", &choices.mount_point),
            udev_rule: advice::udev_rule(device, &choices.setup.scheduler),
            kernel_parameter: advice::kernel_parameter(&choices.setup.scheduler),
            trim: advice::trim(device, &recipe),
            lost_bytes: outside + inside,
            lost_reason: lost_reason(outside, inside, &fitted),
            warnings,
            durability: choices.setup.durability(filesystem)?,
            layers: None,
            second: None,
            device: device.clone(),
            geometry,
            choices: choices.clone(),
        })
    }

    /// Makes it again of device, geometry and choices. What is carried out is the plan that this
    /// returns, and only where it equals this one.
    ///
    /// # Errors
    /// See [`PlanError`]; also when the catalog no longer has the file system.
    pub fn rebuild(&self, catalog: &FileSystemCatalog) -> Result<Self, PlanError> {
        Self::of(catalog, &self.inputs())
    }

    /// The programs for a device at `node`, made of the choices; those that are written in the
    /// plan are not looked at.
    ///
    /// # Errors
    /// As [`Plan::rebuild`].
    pub fn programs(
        &self,
        catalog: &FileSystemCatalog,
        node: &Path,
    ) -> Result<Programs, PlanError> {
        let filesystem = catalog.filesystem(&self.choices.setup.filesystem)?;
        let inputs = self.inputs();
        let prepared = prepare(filesystem, &inputs)?;
        Ok(commands::programs(
            prepared.placement.table,
            &table_partitions(&prepared.placement.partitions, &filesystem.kind, &self.choices),
            self.device.sector_bytes,
            &prepared.recipe,
            node,
            &self.choices.mount_point,
        ))
    }

    /// The commands that make its file system and mount it, as programs and otherwise.
    ///
    /// # Errors
    /// As [`Plan::rebuild`].
    pub fn recipe(&self, catalog: &FileSystemCatalog) -> Result<Recipe, PlanError> {
        let filesystem = catalog.filesystem(&self.choices.setup.filesystem)?;
        Ok(prepare(filesystem, &self.inputs())?.recipe)
    }
}

/// The numbers of the plan and what they cost; of those that mkfs is not given only the block.
fn stated(fitted: &PlacementNumbers, is_fitted: bool) -> (Vec<PlanNumber>, u64) {
    if is_fitted {
        return (fitted.numbers.clone(), fitted.lost_bytes);
    }
    let block = |number: &&PlanNumber| number.name == "block_bytes";
    (fitted.numbers.iter().filter(block).cloned().collect(), 0)
}

fn not_fitted(
    filesystem: &FileSystem,
    conditions: &Conditions,
    fitted: &PlacementNumbers,
) -> Vec<String> {
    let why = match filesystem.option(GEOMETRY) {
        Err(_) => "it takes no numbers of it".to_owned(),
        Ok(option) => filesystem
            .why_not(option, conditions)
            .unwrap_or_else(|| format!("the option `{GEOMETRY}` is left out")),
    };
    let warning = format!("{} is not fitted to the geometry: {why}", filesystem.name);
    fitted.warnings.iter().cloned().chain([warning]).collect()
}

/// That the vendors' format does not suit the erase block, where that is so.
fn vendor_off(
    filesystem: &FileSystem,
    vendor: &PlacementNumbers,
    place: PlannedPlacement,
    grid: EraseBlockGrid,
) -> Option<String> {
    let start = vendor.number("data_start_bytes")?.checked_add(place.start_bytes)?;
    (!grid.is_boundary(start)).then(|| {
        format!(
            "{} is not fitted to the geometry: with `{VENDOR}` its data start at {} of the device, \
             not on an erase block of {}",
            filesystem.name,
            Bytes(start),
            Bytes(grid.block_bytes())
        )
    })
}

/// What to know before a FAT is replaced.
fn before_fat(filesystem: &FileSystem) -> Option<String> {
    let is_fat = matches!(filesystem.kind.as_str(), "vfat" | "exfat");
    is_fat.then(|| {
        "many SD cards treat the place where their vendor put the FAT unlike the rest, so it is \
         best to keep the vendor's format if its data start on an erase block"
            .to_owned()
    })
}

fn lost_reason(outside: u64, inside: u64, fitted: &PlacementNumbers) -> String {
    let table = "the table, what precedes the partition and what is left behind it";
    match (outside > 0, inside > 0) {
        (false, false) => "nothing".to_owned(),
        (true, false) => table.to_owned(),
        (false, true) => fitted.lost_reason.clone(),
        (true, true) => format!("{table}; {}", fitted.lost_reason),
    }
}

/// What [`differences`] calls the commands for the second partition.
pub const SECOND_COMMANDS: &str = "second.commands";

/// Where two plans differ, by the keys of the document; empty if they are equal. Explanatory text
/// is ignored, because another version of flashfit may word it differently.
pub fn differences(one: &Plan, other: &Plan) -> Vec<&'static str> {
    let (one, other) = (without_text(one), without_text(other));
    let mut found = Vec::new();
    let mut differ = |name, equal: bool| {
        if !equal {
            found.push(name);
        }
    };
    differ("medium", one.device == other.device);
    differ("geometry", one.geometry == other.geometry);
    differ("choices", one.choices == other.choices);
    differ("table", one.table == other.table);
    differ("partitions", one.partitions == other.partitions);
    differ("place", one.place == other.place);
    differ("setup", one.setup == other.setup);
    differ("numbers", one.numbers == other.numbers);
    differ("commands", commands::are_same(&one.commands, &other.commands));
    differ("mount_point", one.mount_point == other.mount_point);
    differ("fstab_line", one.fstab_line == other.fstab_line);
    differ("udev_rule", one.udev_rule == other.udev_rule);
    differ("kernel_parameter", one.kernel_parameter == other.kernel_parameter);
    differ("trim", one.trim == other.trim);
    differ("lost_bytes", one.lost_bytes == other.lost_bytes);
    differ("durability", one.durability == other.durability);
    differ("layers", one.layers == other.layers);
    let without_commands = |plan: &Plan| {
        plan.second.clone().map(|second| PlannedSecond { commands: Vec::new(), ..second })
    };
    differ("second", without_commands(&one) == without_commands(&other));
    let second_commands =
        |plan: &Plan| plan.second.iter().flat_map(|second| second.commands.clone()).collect();
    let [former, latter]: [Vec<PlannedCommand>; 2] = [&one, &other].map(second_commands);
    differ(SECOND_COMMANDS, commands::are_same(&former, &latter));
    found
}

/// The plan without explanatory text.
fn without_text(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.partitions.iter_mut().for_each(|partition| partition.reason.clear());
    plan.numbers.iter_mut().for_each(|number| number.reason.clear());
    plan.commands.iter_mut().for_each(|command| command.purpose.clear());
    plan.trim.reason.clear();
    if let Some(second) = &mut plan.second {
        second.commands.iter_mut().for_each(|command| command.purpose.clear());
    }
    if let Some(layers) = &mut plan.layers {
        layers.image_reason.clear();
        layers.renewal_note.clear();
        layers.power_cut.clear();
        layers.settings.iter_mut().for_each(|setting| setting.reason.clear());
        let commands = layers.commands.iter_mut().chain(&mut layers.renewal);
        commands.for_each(|command| command.purpose.clear());
    }
    plan
}
