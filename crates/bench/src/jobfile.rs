//! Validates a job file before it is passed to fio (fio(1), JOB FILE FORMAT).
//!
//! A workload may use only the keys of [`crate::job_keys`], with values of the given forms: no
//! paths, no programs, no files outside the target, no variables other than flashfit's. The parser
//! follows fio's `init.c`; input that fio could parse differently is rejected.

use flashfit_catalog::FileMistake;

use crate::job_keys::{form_of, is_name, similar};

/// fio reads lines in pieces of 4095 bytes, and the second piece of a comment is not a comment.
const MAX_LINE_BYTES: usize = 2048;

/// What is in a job file.
#[derive(Debug, Default)]
pub struct JobFile {
    /// The names of the job sections.
    pub sections: Vec<String>,
    pub mistakes: Vec<FileMistake>,
}

/// Reads the whole file, with all its mistakes.
pub fn check(text: &str) -> JobFile {
    let mut found = JobFile::default();
    let (mut in_section, mut directory, mut grouped) = (false, false, false);
    for (index, line) in text.split('\n').enumerate() {
        let mut bad = |reason| found.mistakes.push(FileMistake { line: index + 1, reason });
        match parse(line) {
            Err(reason) => bad(reason),
            Ok(Line::Empty) => {}
            Ok(Line::Section(name)) => {
                in_section = true;
                if name != "global" {
                    found.sections.push(name.to_owned());
                }
            }
            Ok(Line::Option(key, _)) if !in_section => {
                bad(format!("`{key}` is before the first [section]"));
            }
            Ok(Line::Option(key, value)) => {
                if let Err(reason) = check_option(key, value) {
                    bad(reason);
                }
                directory |= key == "directory";
                grouped |= key == "group_reporting" && value != "0";
            }
        }
    }
    for (is_there, what) in
        [(directory, "`directory=${DIRECTORY}`"), (grouped, "`group_reporting=1`")]
    {
        if !is_there {
            let reason = format!("{what} is missing: write it under [global]");
            found.mistakes.push(FileMistake { line: 1, reason });
        }
    }
    found
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

/// The options of a section, after those of `[global]` before it; `None` if a line is invalid.
pub fn options<'a>(text: &'a str, section: &str) -> Option<Vec<(&'a str, &'a str)>> {
    let (mut found, mut current) = (Vec::new(), "");
    for line in text.split('\n') {
        match parse(line).ok()? {
            Line::Section(_) if current == section => break,
            Line::Section(name) => current = name,
            Line::Option(key, value) if current == section || current == "global" => {
                found.push((key, value));
            }
            Line::Option(..) | Line::Empty => {}
        }
    }
    (current == section).then_some(found)
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
            // File names would override the device, and a device is not created.
            Ok(Line::Option("filename" | "filename_format" | "create_on_open", _)) => {
                "\n".to_owned()
            }
            _ => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
#[path = "jobfile_tests.rs"]
mod tests;
