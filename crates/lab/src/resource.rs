//! What belongs to a place, as `labgrid-client -p PLACE show` prints it.
//!
//! Source: `print_place` in labgrid's `remote/client.py`. The lists `show` and `resources -v` are
//! the only ones that say whether a resource is reached through its exporter alone.

use crate::literal::PythonLiteral;

/// One resource of a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resource {
    /// Its name, which is its class unless the lab gave it another.
    pub(crate) name: String,
    /// Its class: `NetworkService`, `NetworkPowerPort` …
    pub(crate) class: String,
    /// Whether its exporter is there and has it.
    pub(crate) available: bool,
    /// What its class has: address, port …
    pub(crate) params: PythonLiteral,
}

/// What a place is said to have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResourceView {
    /// The place that was shown.
    pub(crate) place: String,
    /// Its resources.
    pub(crate) resources: Vec<Resource>,
    /// Names of resources whose exporter went away while the place was locked.
    pub(crate) orphaned: Vec<String>,
}

/// Reads what is printed; `None` when a description is none.
pub(crate) fn shown(text: &str) -> Option<ResourceView> {
    let mut shown = ResourceView::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = quoted(line, "Place '") {
            shown.place = name.to_owned();
        } else if let Some(name) = quoted(line, "Orphaned resource '") {
            shown.orphaned.push(name.to_owned());
        } else if let Some(name) =
            quoted(line, "Acquired resource '").or_else(|| quoted(line, "Matching resource '"))
        {
            let mut description = String::new();
            while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                description.push_str(more);
                description.push('\n');
            }
            shown.resources.push(described(name, &PythonLiteral::read(&description)?)?);
        }
    }
    (!shown.place.is_empty()).then_some(shown)
}

/// The first name in quotes of a heading that begins so.
fn quoted<'a>(line: &'a str, heading: &str) -> Option<&'a str> {
    line.strip_prefix(heading)?.split_once('\'').map(|(name, _)| name)
}

fn described(name: &str, description: &PythonLiteral) -> Option<Resource> {
    Some(Resource {
        name: name.to_owned(),
        class: description.get("cls")?.text()?.to_owned(),
        available: description.get("avail") == Some(&PythonLiteral::Bool(true)),
        params: description.get("params")?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "\
Place 'board1':
  tags: media=sd, nr=1, pool=pf
  matches:
    rack1/board1/*
  acquired: None
  acquired resources:
Orphaned resource 'console' (rack1/board1/NetworkSerialPort/NetworkSerialPort)
Matching resource 'NetworkPowerPort' (rack1/board1/NetworkPowerPort/NetworkPowerPort):
  {'acquired': None,
   'avail': True,
   'cls': 'NetworkPowerPort',
   'params': {'extra': {'proxy': 'localhost', 'proxy_required': False},
              'host': 'http://127.0.0.1:9999/relay/{index}/value',
              'index': 1,
              'model': 'rest'}}
Matching resource 'ssh' (rack1/board1/NetworkService/NetworkService):
  {'acquired': None,
   'avail': False,
   'cls': 'NetworkService',
   'params': {'address': '127.0.0.1',
              'extra': {'proxy': 'localhost', 'proxy_required': False},
              'password': 'it\\'s a \"long\" password with spaces and quotes and '
                          'more',
              'port': 2201,
              'username': 'root'}}
";

    #[test]
    fn resources_are_read_with_what_they_have() {
        let shown = shown(SHOWN).unwrap();
        assert_eq!((shown.place.as_str(), shown.resources.len()), ("board1", 2));
        assert_eq!(shown.orphaned, ["console"]);
        let [power, ssh] = &shown.resources[..] else { panic!("two") };
        assert_eq!((power.class.as_str(), power.available), ("NetworkPowerPort", true));
        assert_eq!((ssh.name.as_str(), ssh.class.as_str()), ("ssh", "NetworkService"));
        assert!(!ssh.available);
        assert_eq!(ssh.params.get("port"), Some(&PythonLiteral::Int(2201)));
    }

    #[test]
    fn what_is_no_description_is_not_guessed_at() {
        assert_eq!(shown(&SHOWN.replace("'cls': 'NetworkService',", "'cls':")), None);
        assert_eq!(shown(""), None);
    }
}
