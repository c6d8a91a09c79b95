//! How a board is reached by ssh, from its `NetworkService`.
//!
//! The options are those that labgrid's own driver gives to ssh (`driver/sshdriver.py`): a board
//! has a new host key with each image, so none is kept or compared. Limits: a password that the lab
//! has for a board is not used; ssh must get in by key or without one.

use flashfit_host::SshAddress;

use crate::error::LabError;
use crate::literal::PythonLiteral;
use crate::resource::{Resource, ResourceView};

/// The class of resources that are reached by ssh.
const SERVICE: &str = "NetworkService";

/// The address of a place: of the service called `name`, or of its only one. Everything goes
/// through the host `proxy` where there is one.
pub(crate) fn of_place(
    shown: &ResourceView,
    name: Option<&str>,
    proxy: Option<&str>,
) -> Result<SshAddress, LabError> {
    let place = || shown.place.clone();
    let services: Vec<&Resource> = shown
        .resources
        .iter()
        .filter(|resource| resource.class == SERVICE)
        .filter(|resource| name.is_none_or(|name| resource.name == name))
        .collect();
    let service = match services[..] {
        [service] => service,
        [] => return Err(LabError::NoService { place: place() }),
        [..] => {
            let names = services.iter().map(|service| service.name.clone()).collect();
            return Err(LabError::SeveralServices { place: place(), names });
        }
    };
    if !service.available {
        return Err(LabError::ExporterAway { place: place() });
    }
    of_service(&service.params, proxy)
        .map_err(|field| LabError::BadAddress { place: place(), field })
}

/// What cannot be used is named; its value is not, as the lab's passwords are beside it.
fn of_service(params: &PythonLiteral, proxy: Option<&str>) -> Result<SshAddress, &'static str> {
    let text = |field| params.get(field).and_then(PythonLiteral::text);
    let address = text("address").ok_or("address")?;
    let user = text("username").filter(|user| is_plain(user)).ok_or("username")?;
    let port = match params.get("port") {
        Some(PythonLiteral::Int(port)) => u16::try_from(*port).ok().filter(|&port| port > 0),
        None => Some(22),
        Some(_) => None,
    };
    let port = port.ok_or("port")?;
    let through = jump(params, proxy).ok_or("proxy")?;
    let (host, interface) = match address.split_once('%') {
        Some((host, interface)) => (host, Some(interface)),
        None => (address, None),
    };
    if !is_plain(host) || !interface.is_none_or(is_plain) {
        return Err("address");
    }
    let mut settings: Vec<String> =
        ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
            .map(str::to_owned)
            .into();
    match (through, interface) {
        // An address of one link, where the exporter has the link: labgrid's helper connects.
        (Some(exporter), Some(interface)) => settings.push(format!(
            "ProxyCommand=ssh {exporter} -- sudo --non-interactive \
             labgrid-bound-connect {interface} {host} {port}"
        )),
        (Some(exporter), None) => settings.push(format!("ProxyJump={exporter}")),
        (None, Some(_)) => return Err("address"),
        (None, None) => {}
    }
    let mut options = ["-p", &port.to_string(), "-l", user].map(str::to_owned).to_vec();
    options.extend(settings.into_iter().flat_map(|setting| ["-o".to_owned(), setting]));
    Ok(SshAddress { host: host.to_owned(), options })
}

/// The host to go through: the exporter where it says that it must be, else the given one. `None`
/// when the lab's word cannot be used.
fn jump(params: &PythonLiteral, proxy: Option<&str>) -> Option<Option<String>> {
    let extra = params.get("extra");
    let required =
        extra.and_then(|extra| extra.get("proxy_required")) == Some(&PythonLiteral::Bool(true));
    let exporter = extra.and_then(|extra| extra.get("proxy")).and_then(PythonLiteral::text);
    let chosen = match (required, proxy) {
        (false, None) => return Some(None),
        (true, _) => exporter.or(proxy)?,
        (false, Some(proxy)) => exporter.unwrap_or(proxy),
    };
    is_plain(chosen).then(|| Some(chosen.to_owned()))
}

/// Nothing that ssh or a shell could take for an option or a command.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(services: &[(&str, &str)]) -> ResourceView {
        let resource = |(name, params): &(&str, &str)| Resource {
            name: (*name).to_owned(),
            class: SERVICE.to_owned(),
            available: true,
            params: PythonLiteral::read(params).unwrap(),
        };
        ResourceView {
            place: "board1".into(),
            resources: services.iter().map(resource).collect(),
            orphaned: Vec::new(),
        }
    }

    const DIRECT: &str = "{'address': '10.0.0.7', 'port': 2201, 'username': 'root',
                           'extra': {'proxy': 'rack1', 'proxy_required': False}}";

    #[test]
    fn a_board_is_reached_directly_where_nothing_is_in_between() {
        let address = of_place(&shown(&[("ssh", DIRECT)]), None, None).unwrap();
        let line = address.arguments().join(" ");
        assert!(line.starts_with("-p 2201 -l root -o StrictHostKeyChecking=no "), "{line}");
        assert!(line.ends_with(" -- 10.0.0.7"), "{line}");
        assert!(!line.contains("Proxy"), "{line}");
    }

    #[test]
    fn a_board_behind_its_exporter_is_reached_through_it() {
        let behind = DIRECT.replace("False", "True");
        let address = of_place(&shown(&[("ssh", &behind)]), None, None).unwrap();
        assert_eq!(address.options.last().unwrap(), "ProxyJump=rack1");
        let forced = of_place(&shown(&[("ssh", DIRECT)]), None, Some("gate")).unwrap();
        assert_eq!(forced.options.last().unwrap(), "ProxyJump=rack1");
        let link = behind.replace("10.0.0.7", "fe80::1%eth0");
        let address = of_place(&shown(&[("ssh", &link)]), None, None).unwrap();
        assert_eq!(
            address.options.last().unwrap(),
            "ProxyCommand=ssh rack1 -- sudo --non-interactive \
             labgrid-bound-connect eth0 fe80::1 2201"
        );
    }

    #[test]
    fn one_of_several_services_is_chosen_by_name() {
        let several = shown(&[("ssh", DIRECT), ("serial", &DIRECT.replace("2201", "2202"))]);
        let error = of_place(&several, None, None).unwrap_err();
        assert!(matches!(error, LabError::SeveralServices { names, .. } if names.len() == 2));
        assert_eq!(of_place(&several, Some("serial"), None).unwrap().options[1], "2202");
        let error = of_place(&shown(&[]), None, None).unwrap_err();
        assert!(matches!(error, LabError::NoService { .. }));
    }

    #[test]
    fn what_ssh_could_take_for_an_option_is_refused() {
        let changes = [
            ("10.0.0.7", "-oProxyCommand=x"),
            ("'root'", "'root x'"),
            ("2201", "0"),
            ("2201", "70000"),
            ("'rack1', 'proxy_required': False", "'$(x)', 'proxy_required': True"),
        ];
        for (from, to) in changes {
            let changed = DIRECT.replace(from, to);
            assert_ne!(changed, DIRECT);
            let error = of_place(&shown(&[("ssh", &changed)]), None, None).unwrap_err();
            assert!(matches!(error, LabError::BadAddress { .. }), "{changed}");
        }
    }
}
