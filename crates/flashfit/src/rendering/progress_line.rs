//! Lines of progress where there is no terminal, such as in a log.

use flashfit_report::text::{shorten_end, shorten_middle, width};

/// Logs are read in terminals of this width.
const LINE_COLUMNS: usize = 80;
/// Less of a name says nothing.
const LEAST_NAME_COLUMNS: usize = 12;

/// Both on one line, with the name shortened; without the name if there is too little room.
pub fn on_one_line(progress: &str, name: &str) -> String {
    match LINE_COLUMNS.saturating_sub(width(progress)) {
        room @ LEAST_NAME_COLUMNS.. => format!("{progress}{}", shorten_middle(name, room)),
        _ => shorten_end(progress.trim_end_matches("; now "), LINE_COLUMNS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_line_of_80_columns() {
        let name = "ext4 commit-60,noatime,fast_commit none under create-read-delete";
        for progress in [
            "3 trials in 5 s; 4 to 90 to go; 3 min left; now ",
            "131 trials in 25 min; 4 to 849 to go; 5 min of 30 min; 12 min to 25 min left; now ",
        ] {
            let line = on_one_line(progress, name);
            assert!(width(&line) <= 80 && line.starts_with(&progress[..40]), "{line}");
        }
        assert_eq!(on_one_line("1 trial; now ", "xfs"), "1 trial; now xfs");
    }
}
