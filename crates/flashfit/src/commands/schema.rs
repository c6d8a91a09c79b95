//! `flashfit schema`: the JSON Schemas of the documents that commands print.

use clap::Args;
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::schemas::{self, COMMANDS, NAMES};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  flashfit schema\n  flashfit schema recommendation > recommendation.json"
)]
pub struct SchemaArgs {
    /// Document, without `flashfit.` [default: list them].
    pub name: Option<String>,
}

pub fn run(args: &SchemaArgs) -> Result<(), CommandError> {
    let Some(name) = &args.name else {
        return output::print(&list().render(output::width()));
    };
    let name = name.strip_prefix("flashfit.").unwrap_or(name);
    if let Some(text) = schemas::schema_text(name) {
        return output::print_utf8(&text);
    }
    let nearest = flashfit_catalog::nearest(name, NAMES.iter().copied());
    let hint = nearest.map_or_else(
        || "flashfit schema".to_owned(),
        |nearest| format!("did you mean `{nearest}`? flashfit schema lists all documents"),
    );
    let message = format!("`{name}`: there is no document with this name");
    Err(CommandError::new(ExitClass::Usage, message, Some(&hint)))
}

/// A line for each document.
fn list() -> TextTable {
    let mut all = NAMES.to_vec();
    all.sort_unstable();
    let mut table =
        TextTable::new([Column::text("DOCUMENT"), Column::text("COMMANDS").shorten(Shorten::End)]);
    for document in all {
        let of = COMMANDS.iter().filter(|(_, documents)| documents.contains(&document));
        let commands: Vec<&str> = of.map(|(command, _)| *command).collect();
        let commands = match &commands[..] {
            [] => "all, if they fail".to_owned(),
            commands => commands.join(", "),
        };
        table.row([document, &commands]);
    }
    table
}
