//! What flashfit checks in a job file before it hands it to fio (fio(1), JOB FILE FORMAT).
//!
//! fio itself checks options. Looked at here is only what would let a job reach outside its target
//! or make its figures unreadable; a job file is a program of the user's, not a sandbox.

/// Options that name something outside the target or start programs.
const OUTSIDE: [&str; 8] = [
    "exec_prerun",
    "exec_postrun",
    "opendir",
    "read_iolog",
    "write_iolog",
    "replay_redirect",
    "allow_mounted_write",
    "include",
];

/// The names of the job sections.
///
/// # Errors
/// The line and what is wrong with it.
pub fn check(text: &str) -> Result<Vec<String>, (usize, String)> {
    let mut sections = Vec::new();
    let (mut directory, mut grouped) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if name != "global" {
                sections.push(name.to_owned());
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        check_option(key.trim(), value.trim()).map_err(|reason| (index + 1, reason))?;
        directory |= key.trim() == "directory";
        grouped |= key.trim() == "group_reporting" && value.trim() != "0";
    }
    if !directory {
        return Err((1, "the jobs need directory=${DIRECTORY}".to_owned()));
    }
    if !grouped {
        return Err((1, "the jobs need group_reporting=1".to_owned()));
    }
    Ok(sections)
}

fn check_option(key: &str, value: &str) -> Result<(), String> {
    let outside = OUTSIDE.contains(&key)
        || key.split_whitespace().next() == Some("include")
        || key == "directory" && value != "${DIRECTORY}"
        || ["filename", "filename_format"].contains(&key) && value.contains('/')
        || key == "ioengine" && (value == "exec" || value.starts_with("external"));
    if outside { Err(format!("`{key}` could reach outside the target")) } else { Ok(()) }
}

/// The file with settings that come before all of its own.
pub fn with_global(text: &str, settings: &str) -> String {
    format!("[global]\n{settings}\n{text}")
}

/// The file made for a bare device instead of files in a directory.
pub fn on_device(text: &str, device: &str) -> String {
    text.lines()
        .map(|line| match line.split_once('=') {
            Some((key, _)) if key.trim() == "directory" => format!("filename={device}\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_do_not_count() {
        let text = "# exec_prerun=x\n[global]\ndirectory = ${DIRECTORY}\ngroup_reporting\n[a]\n";
        assert_eq!(check(text), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn reaching_outside_is_refused() {
        for line in
            ["filename=/dev/sda", "exec_prerun=rm x", "directory=/", "ioengine=exec", "include x"]
        {
            let text = format!("[global]\ndirectory=${{DIRECTORY}}\ngroup_reporting=1\n{line}\n");
            assert_eq!(check(&text).unwrap_err().0, 4, "{line}");
        }
    }

    #[test]
    fn a_device_takes_the_place_of_the_directory() {
        let text = on_device("[global]\ndirectory=${DIRECTORY}\n[a]\n", "/dev/loop7");
        assert_eq!(text, "[global]\nfilename=/dev/loop7\n[a]\n");
    }
}
