//! Help, completion, and labels of what is printed.

use flashfit_test_support::help_pages;

use crate::fixture::{FLASHFIT, Place};

/// A line that was broken in the source and again for the terminal has room for the next word.
#[test]
fn paragraphs_of_the_help_are_wrapped_once() {
    let is_text = |line: &str| line.starts_with(|first: char| first != ' ') && !line.ends_with(':');
    let mut found = Vec::new();
    for page in help_pages(FLASHFIT) {
        let lines: Vec<&str> = page.text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| is_text(line))) {
            let word = pair[1].split(' ').next().unwrap();
            if pair[0].len() + 1 + word.len() <= 80 {
                found.push(format!("{:?}: {} / {}", page.command, pair[0], pair[1]));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn help_suggests_what_a_mistyped_command_may_mean() {
    let place = Place::new();
    for args in [&["tun"][..], &["help", "tun"]] {
        place.flashfit(args).said(2, &["unrecognized subcommand 'tun'", "exists: 'tune'"]);
    }
    for args in [&["help", "wear", "shw"][..], &["wear", "help", "shw"]] {
        place.flashfit(args).said(2, &["exists: 'show'"]);
    }
    let [long, short] = [&["help", "wear", "show"][..], &["wear", "show", "--help"]];
    assert_eq!(place.flashfit(long).stdout, place.flashfit(short).stdout);
    place.flashfit(&["help"]).said(0, &[]);
}

#[test]
fn completion_offers_no_hidden_flag() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = place.flashfit(&["completions", shell]);
        ended.said(0, &[]);
        let script = ended.stdout;
        for hidden in ["require", "shown", "reached-as", "client-output", "client-twin"] {
            let dashed = [format!("--{hidden} "), format!("-l {hidden} "), format!("--{hidden}[")];
            assert!(!dashed.iter().any(|flag| script.contains(flag)), "{shell}: {hidden}");
        }
        for shown in ["geometry", "catalog", "max-write"] {
            assert!(script.contains(shown), "{shell}: {shown}");
        }
    }
}

#[test]
fn two_blanks_are_between_a_label_and_its_text() {
    let place = Place::new();
    place.image("image", 64);
    for command in ["probe", "check"] {
        let printed = place.flashfit(&[command, "image"]).stdout;
        let is_row = |line: &&str| line.contains("this is a file");
        let rows: Vec<&str> = printed.lines().filter(is_row).collect();
        assert!(!rows.is_empty(), "{printed}");
        for row in rows {
            let label = row.trim_start().split("  ").next().unwrap();
            assert!(label.len() <= "open erase blocks, linear".len(), "{row}");
        }
    }
}
