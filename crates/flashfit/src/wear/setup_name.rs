//! How a setup is typed for `flashfit wear`: a file system, with options after colons.

use std::str::FromStr;

use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupName {
    pub filesystem: String,
    pub options: Vec<String>,
}

impl FromStr for SetupName {
    type Err = CommandError;

    fn from_str(text: &str) -> Result<Self, CommandError> {
        let mut parts = text.split(':').map(str::to_owned);
        let filesystem = parts.next().unwrap_or_default();
        let options: Vec<String> = parts.collect();
        if filesystem.is_empty() || options.iter().any(String::is_empty) {
            return Err(CommandError::new(
                ExitClass::Usage,
                format!("`{text}` is not a setup: expected a file system, as ext4 or ext4:noatime"),
                Some("flashfit catalog list"),
            ));
        }
        Ok(Self { filesystem, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_colons() {
        let name: SetupName = "ext4:noatime:discard".parse().unwrap_or_else(|_| panic!());
        assert_eq!((name.filesystem.as_str(), name.options.len()), ("ext4", 2));
        assert!("ext4:".parse::<SetupName>().is_err() && "".parse::<SetupName>().is_err());
    }
}
