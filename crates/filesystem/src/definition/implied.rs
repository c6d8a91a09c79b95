//! Options that switch on others: no circle, and nothing that cannot be combined.

use toml::Spanned;

use super::checks::exclude_each_other;
use super::{At, OptionToml, at};

/// Whether following `implies` always ends, and at options that can be combined. The names are
/// known to be there.
pub(super) fn check(options: &[OptionToml]) -> Result<(), At> {
    for option in options {
        let mut all = vec![option];
        for place in &option.implies {
            follow(options, place, &mut vec![option], &mut all)?;
        }
        for (index, one) in all.iter().enumerate() {
            if let Some(other) = all[..index].iter().find(|other| exclude_each_other(one, other)) {
                let names = [option, other, one].map(|option| option.name.get_ref().as_str());
                let [name, other, one] = names;
                let reason = if other == name {
                    format!("`{name}` implies `{one}`, which it cannot be combined with")
                } else {
                    format!("`{name}` implies `{other}` and `{one}`, which cannot be combined")
                };
                return Err(at(&option.implies[0], reason));
            }
        }
    }
    Ok(())
}

fn follow<'a>(
    options: &'a [OptionToml],
    place: &Spanned<String>,
    path: &mut Vec<&'a OptionToml>,
    all: &mut Vec<&'a OptionToml>,
) -> Result<(), At> {
    let named = options.iter().find(|option| option.name.get_ref() == place.get_ref());
    let option = named.expect("names are checked before circles");
    if path.iter().any(|known| std::ptr::eq(*known, option)) {
        let circle: Vec<String> = path
            .iter()
            .skip_while(|known| !std::ptr::eq(**known, option))
            .chain([&option])
            .map(|option| format!("`{}`", option.name.get_ref()))
            .collect();
        return Err(at(place, format!("a circle: {}", circle.join(" implies "))));
    }
    if !all.iter().any(|known| std::ptr::eq(*known, option)) {
        all.push(option);
    }
    path.push(option);
    for next in &option.implies {
        follow(options, next, path, all)?;
    }
    path.pop();
    Ok(())
}
