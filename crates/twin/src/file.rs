//! Writes a twin as a card file whose comments tell how each value was found.

use flashfit_card::CardModel;
use flashfit_card::model::ModelError;
use flashfit_catalog::Origin;
use flashfit_geometry::flashbench::GoodFor;

use crate::Twin;
use crate::pattern::PatternRatio;
use crate::structure::CardStructure;

/// Keys found by the search, or by the probe before it.
const SEARCHED: [&str; 15] = [
    "page",
    "dies",
    "kind",
    "open_units",
    "open_units_random",
    "replacement",
    "random_pages",
    "scratch",
    "log_units",
    "log_request",
    "chunk",
    "map_unit",
    "collection",
    "undeclared",
    "units",
];
/// Keys fitted to the measurements.
const FITTED: [&str; 9] = [
    "read_ns",
    "program_ns",
    "copy_ns",
    "erase_ns",
    "command_ns",
    "log_ns",
    "close_ns",
    "jump_ns",
    "switch_ns",
];
/// The section whose kind is not found: that of the bus is the usual one.
const BUS: &str = "[bus]";
/// Keys measured directly; the erase block only if it is the one that was found.
const MEASURED: [&str; 2] = [ERASE_BLOCK, "lookup_ns"];
const ERASE_BLOCK: &str = "erase_unit";

impl Twin {
    /// The text of the card file, parsed once to ensure that it is valid.
    ///
    /// # Errors
    /// When the model cannot be simulated; this does not happen for the result of [`crate::fit`].
    pub fn to_toml(&self) -> Result<String, ModelError> {
        let comparison = &self.comparison;
        let mut text = format!(
            "# {}\n#\n# A twin: a simulated card whose parameters were fitted by flashfit. Its behavior is \
             simulated;\n# the real device may work differently inside.\n# Compared with the {} rates that it \
             was fitted to: median ratio {}, nine in ten within {}.\n{}{}{}{}\n",
            self.model.title,
            comparison.cells,
            hundredths(comparison.median_error_thousandths),
            hundredths(comparison.ninth_decile_error_thousandths),
            self.pattern_line(),
            self.erase_block_lines(),
            self.good_for_lines(),
            self.alike_lines(),
        );
        let body = toml::to_string(&self.model).expect("a card model is plain data");
        let mut section = "";
        for line in body.lines() {
            text.push_str(line);
            section = if line.starts_with('[') { line } else { section };
            let key = line.split('=').next().unwrap_or("").trim();
            let comment = [
                (&SEARCHED[..], "found by probe or search"),
                (&FITTED[..], "fitted"),
                (&MEASURED[..], "measured"),
            ];
            let is_usual = match key {
                "dies" => self.patterns.is_empty(),
                "kind" => section == BUS,
                _ => false,
            };
            let how = comment.iter().find(|(keys, _)| !is_usual && keys.contains(&key));
            if let Some((_, why)) = how {
                let is_assumed = key == ERASE_BLOCK
                    && self.found_erase_block != Some(self.model.nand.erase_block);
                text.push_str("  # ");
                text.push_str(if is_assumed { "assumed by the tables" } else { why });
            }
            text.push('\n');
        }
        CardModel::parse(&text, &Origin::File("the twin".into()))?;
        Ok(text)
    }

    /// A warning if the tables did not assume the erase block that was found, as comments.
    fn erase_block_lines(&self) -> String {
        let assumed = self.model.nand.erase_block;
        match self.found_erase_block {
            Some(found) if found != assumed => format!(
                "# Its erase blocks of {assumed} are those that the tables assume. The device has \
                 erase blocks\n# of {found}, so that what depends on them may differ.\n"
            ),
            _ => String::new(),
        }
    }

    fn pattern_line(&self) -> String {
        let Some((median, largest)) = PatternRatio::median_and_largest(&self.patterns) else {
            return String::new();
        };
        format!(
            "# Compared with the {} patterns of file systems: median ratio {}, largest {}.\n",
            self.patterns.len(),
            hundredths(median),
            hundredths(largest)
        )
    }

    /// What it could have been as well, as comments.
    fn alike_lines(&self) -> String {
        let alike = summaries(&self.alike).into_iter().map(|of| format!("#   {of}\n"));
        let lines: String = alike.collect();
        match lines.is_empty() {
            true => lines,
            false => format!("# The measurements do not tell it apart from:\n{lines}"),
        }
    }

    /// Which writes it reproduces within 1.3 (half of the rates) and 2 (nine in ten), as comments.
    fn good_for_lines(&self) -> String {
        let GoodFor { good, not } = self.good_for();
        let list = |title: &str, texts: Vec<String>| -> String {
            let lines: String = texts.iter().map(|text| format!("#   {text}\n")).collect();
            if lines.is_empty() { lines } else { format!("# {title}:\n{lines}") }
        };
        list("Good for", good) + &list("Not for", not)
    }
}

/// The summaries of structures, each once: some differ only in what those do not contain.
pub fn summaries(structures: &[CardStructure]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for summary in structures.iter().map(CardStructure::summary) {
        if !all.contains(&summary) {
            all.push(summary);
        }
    }
    all
}

/// Rounded up, because the text says "within".
fn hundredths(thousandths: u64) -> String {
    let hundredths = thousandths.div_ceil(10);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use flashfit_card::model::{Collection, Replacement};

    use super::*;
    use crate::structure::OrderedLayerKind;

    #[test]
    fn structures_with_equal_summaries_are_named_once() {
        let of = |open_erase_blocks, log_request| CardStructure {
            kind: OrderedLayerKind::UpdateLog,
            page_bytes: 8 << 10,
            dies: 1,
            open_erase_blocks,
            open_erase_blocks_random: 0,
            replacement: Replacement::default(),
            random_pages: 0,
            scratch: false,
            buffer: false,
            log_blocks: 2,
            log_request_bytes: log_request,
            chunk_bytes: 512 << 10,
            spare_blocks: 0,
            collection: Collection::default(),
            cache_bytes: 0,
            was_full: true,
            zone_blocks: 0,
            logged_pages: 0,
        };
        assert_eq!(
            summaries(&[of(3, 4096), of(4, 4096), of(3, 8192)]),
            ["update-log with 3 open erase blocks", "update-log with 4 open erase blocks"]
        );
    }
}
