//! What flashfit checks in a job file before it hands it to fio (fio(1), JOB FILE FORMAT).
//!
//! A workload may use the keys of [`crate::job_keys`] alone, with values of their forms: no paths,
//! no programs, no files outside the target, no variables but flashfit's. The file is split into
//! lines and values as fio's `init.c` does it; what fio might split otherwise is refused.

use crate::job_keys::{form_of, is_name, near};

/// fio reads lines by pieces of 4095 bytes, and the second piece of a comment is not a comment.
const LONGEST_LINE: usize = 2048;

/// The names of the job sections.
///
/// # Errors
/// The line and what is wrong with it.
pub fn check(text: &str) -> Result<Vec<String>, (usize, String)> {
    let mut sections = Vec::new();
    let (mut begun, mut directory, mut grouped) = (false, false, false);
    for (index, line) in text.split('\n').enumerate() {
        let bad = |reason: String| (index + 1, reason);
        match parse(line).map_err(bad)? {
            Line::Empty => {}
            Line::Section(name) => {
                begun = true;
                if name != "global" {
                    sections.push(name.to_owned());
                }
            }
            Line::Option(key, _) if !begun => {
                return Err(bad(format!("`{key}` is before the first [section]")));
            }
            Line::Option(key, value) => {
                check_option(key, value).map_err(bad)?;
                directory |= key == "directory";
                grouped |= key == "group_reporting" && value != "0";
            }
        }
    }
    if !directory {
        return Err((1, "the jobs need directory=${DIRECTORY}".to_owned()));
    }
    if !grouped {
        return Err((1, "the jobs need group_reporting=1".to_owned()));
    }
    Ok(sections)
}

/// What a line is.
enum Line<'a> {
    Empty,
    Section(&'a str),
    Option(&'a str, &'a str),
}

fn parse(line: &str) -> Result<Line<'_>, String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
    }
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err("the line contains a control character".to_owned());
    }
    // Where fio ends an option, too.
    let line = line.split([';', '#']).next().unwrap_or("").trim_matches([' ', '\t']);
    if line.is_empty() {
        return Ok(Line::Empty);
    }
    if let Some(rest) = line.strip_prefix('[') {
        let name = rest.strip_suffix(']').filter(|name| is_name(name));
        return name.map(Line::Section).ok_or_else(|| {
            format!("`{line}` is not a section: [NAME] of letters, digits, `-`, `_` and `.`")
        });
    }
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    Ok(Line::Option(key.trim_matches([' ', '\t']), value.trim_matches([' ', '\t'])))
}

fn check_option(key: &str, value: &str) -> Result<(), String> {
    let Some(form) = form_of(key) else {
        let near = near(key).iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let near = if near.is_empty() { near } else { format!("; similar ones: {near}") };
        return Err(format!("`{key}` is not a key that a workload may use{near}"));
    };
    if form.fits(value) {
        return Ok(());
    }
    Err(format!("`{value}` is not a value that `{key}` may have in a workload: {form}"))
}

/// The file with settings that come before all of its own.
pub fn with_global(text: &str, settings: &str) -> String {
    format!("[global]\n{settings}\n{text}")
}

/// The file made for a bare device instead of files in a directory.
pub fn on_device(text: &str, device: &str) -> String {
    text.lines()
        .map(|line| match parse(line) {
            Ok(Line::Option("directory", _)) => format!("filename={device}\n"),
            // Names of files would take the place of the device's.
            Ok(Line::Option("filename" | "filename_format", _)) => "\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
#[path = "jobfile_tests.rs"]
mod tests;
