//! Command lines of flashbench, read as `getopt_long` reads them: clustered short options, values
//! in the same or the next word, and abbreviated long options. Source: `parse_arguments` in
//! `flashbench.c`. Limits: no quoted words; the line ends at a `|`, `;` or `&&` of its own.

/// The options: the long name, the letter, and whether a value follows.
const OPTIONS: [(&str, Option<char>, bool); 17] = [
    ("out", Some('o'), true),
    ("scatter", Some('s'), false),
    ("scatter-order", None, true),
    ("scatter-span", None, true),
    ("align", Some('a'), false),
    ("interval", Some('i'), false),
    ("interval-order", None, true),
    ("find-fat", Some('f'), false),
    ("fat-nr", Some('F'), true),
    ("open-au", Some('O'), false),
    ("open-au-nr", None, true),
    ("offset", None, true),
    ("random", Some('r'), false),
    ("verbose", Some('v'), false),
    ("count", Some('c'), true),
    ("blocksize", Some('b'), true),
    ("erasesize", Some('e'), true),
];

/// The options of a command line in their order, by their long names.
#[derive(Debug, Default)]
pub(super) struct CommandLine<'a> {
    options: Vec<(&'static str, Option<&'a str>)>,
}

impl<'a> CommandLine<'a> {
    /// Finds flashbench with at least one option after an optional prompt.
    pub(super) fn find(words: &[&'a str]) -> Option<Self> {
        let at = words.iter().position(|word| word.rsplit('/').next() == Some("flashbench"))?;
        let ends = |word: &&&str| !["|", ";", "&&", "--"].contains(*word);
        let mut words = words[at + 1..].iter().take_while(ends).copied();
        let mut line = Self::default();
        let mut has_options = false;
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty()) else {
                continue;
            };
            has_options = true;
            match option.strip_prefix('-') {
                Some(option) => line.add_long(option, &mut words),
                None => line.add_short(option, &mut words),
            }
        }
        has_options.then_some(line)
    }

    fn add_long(&mut self, option: &'a str, words: &mut impl Iterator<Item = &'a str>) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let exact = OPTIONS.iter().find(|(long, ..)| *long == name);
        let mut abbreviated = OPTIONS.iter().filter(|(long, ..)| long.starts_with(name));
        let only = abbreviated.next().filter(|_| abbreviated.next().is_none());
        if let Some(&(long, _, has_value)) = exact.or(only) {
            self.options
                .push((long, if has_value { value.or_else(|| words.next()) } else { None }));
        }
    }

    /// A cluster of letters; what follows a letter with a value is its value.
    fn add_short(&mut self, cluster: &'a str, words: &mut impl Iterator<Item = &'a str>) {
        for (at, letter) in cluster.char_indices() {
            let known = OPTIONS.iter().find(|(_, short, _)| *short == Some(letter));
            let Some(&(long, _, has_value)) = known else { continue };
            if !has_value {
                self.options.push((long, None));
                continue;
            }
            let rest = Some(&cluster[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
            self.options.push((long, rest.or_else(|| words.next())));
            return;
        }
    }

    /// Whether the option with this long name is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(long, _)| *long == name)
    }

    /// The last value of an option; `Some(None)` if it is missing.
    pub(super) fn value(&self, name: &str) -> Option<Option<&'a str>> {
        self.options.iter().rfind(|(long, _)| *long == name).map(|(_, value)| *value)
    }
}
