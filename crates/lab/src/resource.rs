//! Parses the resources of a place as printed by `labgrid-client -p PLACE show`.
//!
//! Source: `print_place` in labgrid's `remote/client.py`. Only `show` and `resources -v` print
//! whether a resource requires its exporter as proxy.

use crate::literal::PythonLiteral;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resource {
    /// The name; by default the class.
    pub(crate) name: String,
    /// Such as `NetworkService` or `NetworkPowerPort`.
    pub(crate) class: String,
    /// Whether its exporter provides it.
    pub(crate) available: bool,
    /// Attributes, such as address and port.
    pub(crate) params: PythonLiteral,
}

/// A place with its resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResourceView {
    pub(crate) place: String,
    pub(crate) resources: Vec<Resource>,
    /// Resources whose exporter disappeared while the place was locked.
    pub(crate) orphaned: Vec<String>,
}

/// Parses the output; `None` if a description is invalid.
pub(crate) fn parse(text: &str) -> Option<ResourceView> {
    let mut view = ResourceView::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = quoted(line, "Place '") {
            view.place = name.to_owned();
        } else if let Some(name) = quoted(line, "Orphaned resource '") {
            view.orphaned.push(name.to_owned());
        } else if let Some(name) =
            quoted(line, "Acquired resource '").or_else(|| quoted(line, "Matching resource '"))
        {
            let mut description = String::new();
            while let Some(more) = lines.next_if(|line| line.starts_with("  ")) {
                description.push_str(more);
                description.push('\n');
            }
            view.resources.push(described(name, &PythonLiteral::read(&description)?)?);
        }
    }
    (!view.place.is_empty()).then_some(view)
}

/// The first quoted name in a heading.
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
    fn resources_are_parsed_with_their_attributes() {
        let shown = parse(SHOWN).unwrap();
        assert_eq!((shown.place.as_str(), shown.resources.len()), ("board1", 2));
        assert_eq!(shown.orphaned, ["console"]);
        let [power, ssh] = &shown.resources[..] else { panic!("two") };
        assert_eq!((power.class.as_str(), power.available), ("NetworkPowerPort", true));
        assert_eq!((ssh.name.as_str(), ssh.class.as_str()), ("ssh", "NetworkService"));
        assert!(!ssh.available);
        assert_eq!(ssh.params.get("port"), Some(&PythonLiteral::Int(2201)));
    }

    #[test]
    fn invalid_descriptions_are_refused() {
        assert_eq!(parse(&SHOWN.replace("'cls': 'NetworkService',", "'cls':")), None);
        assert_eq!(parse(""), None);
    }
}
