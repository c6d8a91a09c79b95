//! Validates a job file before it is passed to fio (fio(1), JOB FILE FORMAT).
//!
//! A workload may use only the keys of [`crate::job_keys`], with values of the given forms: no
//! paths, no programs, no files outside the target, no variables other than flashfit's. The parser
//! follows fio's `init.c`; input that fio could parse differently is rejected.

use crate::job_keys::{form_of, is_name, similar};

/// fio reads lines in pieces of 4095 bytes, and the second piece of a comment is not a comment.
const MAX_LINE_BYTES: usize = 2048;

/// Returns the names of the job sections.
///
/// # Errors
/// The line number and the reason.
pub fn check(text: &str) -> Result<Vec<String>, (usize, String)> {
    let mut sections = Vec::new();
    let (mut in_section, mut directory, mut grouped) = (false, false, false);
    for (index, line) in text.split('\n').enumerate() {
        let bad = |reason: String| (index + 1, reason);
        match parse(line).map_err(bad)? {
            Line::Empty => {}
            Line::Section(name) => {
                in_section = true;
                if name != "global" {
                    sections.push(name.to_owned());
                }
            }
            Line::Option(key, _) if !in_section => {
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
        return Err((1, "`directory=${DIRECTORY}` is missing".to_owned()));
    }
    if !grouped {
        return Err((1, "`group_reporting=1` is missing".to_owned()));
    }
    Ok(sections)
}

enum Line<'a> {
    Empty,
    Section(&'a str),
    Option(&'a str, &'a str),
}

fn parse(line: &str) -> Result<Line<'_>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err("the line contains a control character".to_owned());
    }
    // fio ends an option at the same characters.
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
        let names: Vec<String> = similar(key).iter().map(|name| format!("`{name}`")).collect();
        let names = match names.as_slice() {
            [] => String::new(),
            names => format!("; similar keys: {}", names.join(", ")),
        };
        return Err(format!("`{key}` is not allowed in a workload{names}"));
    };
    if form.matches(value) {
        return Ok(());
    }
    Err(format!("`{value}` is not a valid value of `{key}` in a workload: expected {form}"))
}

/// The file with additional settings at its start.
pub fn with_global(text: &str, settings: &str) -> String {
    format!("[global]\n{settings}\n{text}")
}

/// The file, changed to use a bare device instead of files in a directory.
pub fn on_device(text: &str, device: &str) -> String {
    text.lines()
        .map(|line| match parse(line) {
            Ok(Line::Option("directory", _)) => format!("filename={device}\n"),
            // File names would override the device.
            Ok(Line::Option("filename" | "filename_format", _)) => "\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
#[path = "jobfile_tests.rs"]
mod tests;
