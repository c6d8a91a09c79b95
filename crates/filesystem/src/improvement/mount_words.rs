//! How words of mount(8) go together: which one takes the place of which, and which one takes
//! another back.
//!
//! Source: mount(8). Options of one file system alone are known by their form only: `NAME`,
//! `noNAME` and `NAME=VALUE`.

/// Of these, one is in effect.
const ACCESS_TIMES: [&str; 5] = ["noatime", "relatime", "strictatime", "atime", "norelatime"];

/// Options of one mount, next to `ro` and `rw`, which the file system has, too.
const OF_ONE_MOUNT: [&str; 15] = [
    "noatime",
    "relatime",
    "strictatime",
    "atime",
    "norelatime",
    "nodiratime",
    "diratime",
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "noexec",
    "exec",
    "nosymfollow",
    "symfollow",
];

/// Whether an option belongs to the file system, and not to one of its mounts.
pub fn is_of_file_system(option: &str) -> bool {
    !OF_ONE_MOUNT.contains(&option)
}

/// What `-o` of mount(8) is given to change these options of a mount in use. With `bind`, it leaves
/// the file system as it is: without it, a read-only bind mount makes all of it read-only.
pub fn remount_words(options: &[String]) -> String {
    let of_file_system = options.iter().any(|option| is_of_file_system(option));
    let bind = if of_file_system { "" } else { "bind," };
    format!("remount,{bind}{}", options.join(","))
}

/// Whether the two words are about the same thing, and differ.
pub fn contradicts(one: &str, other: &str) -> bool {
    if one == other {
        return false;
    }
    if ACCESS_TIMES.contains(&one) && ACCESS_TIMES.contains(&other) {
        return true;
    }
    let negated = |of: &str, word: &str| word.strip_prefix("no") == Some(of);
    let name = |word: &str| word.split_once('=').map(|(name, _)| name.to_owned());
    negated(one, other)
        || negated(other, one)
        || name(one).is_some_and(|of| name(other).as_deref() == Some(of.as_str()))
}

/// The words of `before`, separated by commas, with `added` in place of those that contradict them.
pub fn merged(before: &str, added: &[String]) -> String {
    // A word that is there already keeps its place, so that nothing changes.
    let in_effect = |new: &str| {
        before.split(',').any(|word| word == new)
            && !before.split(',').any(|word| contradicts(new, word))
    };
    let added: Vec<&String> = added.iter().filter(|new| !in_effect(new)).collect();
    let stays = |word: &&str| {
        !word.is_empty() && !added.iter().any(|new| new == word || contradicts(new, word))
    };
    let words = before.split(',').filter(stays).map(str::to_owned);
    let mut words: Vec<String> = words.collect();
    words.extend(added.into_iter().cloned());
    words.join(",")
}

/// The word that takes `option` back on a file system that was mounted with `before`; `None` where
/// only mounting it again does.
pub fn inverse(option: &str, before: &[String]) -> Option<String> {
    if before.iter().any(|word| word == option) {
        return Some(option.to_owned());
    }
    if ACCESS_TIMES.contains(&option) {
        let was = before.iter().find(|word| ACCESS_TIMES.contains(&word.as_str()));
        return Some(was.map_or("strictatime", String::as_str).to_owned());
    }
    if let Some(was) = before.iter().find(|word| contradicts(option, word)) {
        return Some(was.clone());
    }
    match (option.contains('='), option.strip_prefix("no")) {
        (true, _) => None,
        (false, Some(positive)) => Some(positive.to_owned()),
        (false, None) => Some(format!("no{option}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn a_word_takes_the_place_of_its_opposite() {
        assert_eq!(merged("defaults", &words("noatime")), "defaults,noatime");
        assert_eq!(merged("rw,relatime,discard", &words("noatime,nodiscard")), {
            "rw,noatime,nodiscard"
        });
        assert_eq!(merged("commit=5,errors=remount-ro", &words("commit=60")), {
            "errors=remount-ro,commit=60"
        });
        assert_eq!(merged("noatime", &words("noatime")), "noatime");
        assert_eq!(merged("noatime,nofail", &words("noatime")), "noatime,nofail");
        assert_eq!(merged("noatime,relatime", &words("noatime")), "noatime");
        assert_eq!(merged("nodiratime,nofail", &words("noatime")), "nodiratime,nofail,noatime");
    }

    #[test]
    fn words_of_one_mount_are_not_of_the_file_system() {
        assert!(["noatime", "nodev", "strictatime"].iter().all(|word| !is_of_file_system(word)));
        assert!(["commit=60", "lazytime", "ro", "sync"].iter().all(|word| is_of_file_system(word)));
    }

    #[test]
    fn what_was_is_taken_back_by_the_word_that_was() {
        assert_eq!(inverse("noatime", &words("rw,relatime")).as_deref(), Some("relatime"));
        assert_eq!(inverse("noatime", &words("rw")).as_deref(), Some("strictatime"));
        assert_eq!(inverse("noatime", &words("rw,noatime")).as_deref(), Some("noatime"));
        assert_eq!(inverse("nodiscard", &words("rw,discard")).as_deref(), Some("discard"));
        assert_eq!(inverse("lazytime", &words("rw")).as_deref(), Some("nolazytime"));
        assert_eq!(inverse("commit=60", &words("rw,commit=30")).as_deref(), Some("commit=30"));
        assert_eq!(inverse("commit=60", &words("rw")), None);
    }
}
