//! Versions of kernels and programs, as far as options depend on them.
//!
//! A version is its numbers: `6.18.44-rc1` is 6.18.44, and 5.10 is 5.10.0. Limits: what a
//! distribution carries back to an older version is not seen in its number.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The numbers of a version, ordered as versions are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct Version(#[schemars(with = "String")] Vec<u32>);

impl Version {
    /// The first version in a text such as `mke2fs 1.47.0 (5-Feb-2023)`; a number with at least
    /// one point counts as one.
    pub fn find_in(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || "(),-_~+vV".contains(c))
            .find_map(|word| word.contains('.').then(|| word.parse().ok())?)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        let mut numbers =
            numbers.map_err(|_| format!("`{text}` is not a version: write it as 5.10"))?;
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        if numbers.len() == 1 {
            numbers.push("0".to_owned());
        }
        f.write_str(&numbers.join("."))
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Versions of the kernel and of the program that makes the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Version>,
    /// That of the mkfs program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Version>,
}

impl Versions {
    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.tool.is_none()
    }
}

/// Why something that is there from `since` on and no longer from `until` on is not there in the
/// versions `here`; `None` where it is, or where a version is not known.
pub fn why_absent(since: &Versions, until: &Versions, here: &Versions) -> Option<String> {
    let absent = |what: &str, since: &Option<Version>, until: &Option<Version>, here| {
        let here: &Version = here?;
        if let Some(since) = since.as_ref().filter(|since| here < since) {
            return Some(format!("it requires {what} {since} or later, and this is {here}"));
        }
        let until = until.as_ref().filter(|until| here >= until)?;
        Some(format!("it was removed in {what} {until}, and this is {here}"))
    };
    absent("kernel", &since.kernel, &until.kernel, here.kernel.as_ref())
        .or_else(|| absent("version", &since.tool, &until.tool, here.tool.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(version("5.10") > version("5.9.12"));
        assert!(version("6.2") < version("6.18.44"));
        assert_eq!(version("6.0"), version("6"));
        assert_eq!(version("6").to_string(), "6.0");
        assert!("6.x".parse::<Version>().is_err());
    }

    #[test]
    fn a_version_is_found_in_what_programs_and_kernels_say() {
        for (text, found) in [
            ("mke2fs 1.47.0 (5-Feb-2023)", "1.47"),
            ("mkfs.btrfs, part of btrfs-progs v6.2", "6.2"),
            ("mkfs.f2fs 1.15.0 (2022-05-13)", "1.15"),
            ("6.18.44-fc-v669", "6.18.44"),
            ("mkfs.nilfs2 (nilfs-utils 2.2.9)", "2.2.9"),
            ("exfatprogs version : 1.2.0", "1.2"),
        ] {
            assert_eq!(Version::find_in(text), Some(version(found)), "{text}");
        }
        assert_eq!(Version::find_in("no version 5"), None);
    }

    #[test]
    fn what_a_version_lacks_is_reported() {
        let at = |text: &str| Versions { kernel: Some(version(text)), tool: None };
        let why = |here: &Versions| why_absent(&at("5.10"), &at("6.7"), here);
        assert_eq!(
            why(&at("4.19")).as_deref(),
            Some("it requires kernel 5.10 or later, and this is 4.19")
        );
        assert!(why(&at("6.7")).is_some());
        assert_eq!(why(&at("6.6")), None);
        assert_eq!(why(&Versions::default()), None);
    }
}
