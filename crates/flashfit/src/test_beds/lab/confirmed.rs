//! The devices of a lab's boards that the user agreed to lose, by the names of the boards.

use std::collections::BTreeMap;

use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

/// The names of devices in `BOARD:NAME`, several separated by commas, by board.
pub fn names_by_board(confirmed: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let parts = confirmed.iter().flat_map(|text| text.split(','));
    parts
        .map(|part| match part.split_once(':') {
            Some((board, name)) if !board.is_empty() && !name.is_empty() => {
                Ok((board.to_owned(), name.to_owned()))
            }
            _ => Err(CommandError::new(
                ExitClass::Usage,
                format!("`{part}` does not name a board"),
                Some("in a lab: --confirm BOARD:NAME,BOARD:NAME"),
            )),
        })
        .collect()
}

/// The name of the device on the board that the lab gave; `None` if nobody agreed to anything.
pub fn name_on_board(
    confirmed: &BTreeMap<String, String>,
    board: &str,
) -> Result<Option<String>, CommandError> {
    match (confirmed.get(board), confirmed.first_key_value()) {
        (None, Some((other, _))) => Err(CommandError::new(
            ExitClass::Refused,
            format!("you agreed for {other}, but the lab gave {board}"),
            Some(&format!("add name={other} to the tags of --on")),
        )),
        (name, _) => Ok(name.cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_named_with_its_board() {
        let names = names_by_board(&["b1:sda,b2:sdb".to_owned(), "b3:sda".to_owned()]).unwrap();
        let names: Vec<(&str, &str)> =
            names.iter().map(|(board, name)| (board.as_str(), name.as_str())).collect();
        assert_eq!(names, [("b1", "sda"), ("b2", "sdb"), ("b3", "sda")]);
        let confirmed = names_by_board(&["b1:sda,b2:sdb".to_owned()]).unwrap();
        assert_eq!(name_on_board(&confirmed, "b2").unwrap().as_deref(), Some("sdb"));
        let error = name_on_board(&confirmed, "b3").unwrap_err();
        assert_eq!(error.class(), ExitClass::Refused);
        assert!(error.message().contains("the lab gave b3"), "{}", error.message());
        assert_eq!(name_on_board(&BTreeMap::new(), "b3").unwrap(), None);
        for bad in ["sda", "b1:", ":sda", "b1:sda,sda", ""] {
            let error = names_by_board(&[bad.to_owned()]).unwrap_err();
            assert_eq!(error.class(), ExitClass::Usage, "{bad}");
            assert!(error.hint().unwrap().contains("BOARD:NAME"), "{bad}");
        }
    }
}
