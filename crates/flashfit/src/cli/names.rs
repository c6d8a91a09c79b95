//! Names of devices and files as clap takes them, which need not be UTF-8 and may have control
//! characters.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};
use flashfit_host::path_text;
use flashfit_target::SIMULATED;

/// The value of a device, an image or a simulated card for clap. A path that cannot be shown
/// becomes its `file:` URL, which replaces it in commands and documents.
pub fn target_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|name| {
        if name.is_empty() {
            return Err("it is empty; name a device, an image or sim:NAME");
        }
        if let Some(shown) = path_text::showable(&name) {
            return Ok(shown.to_owned());
        }
        Ok(match name.as_bytes().strip_prefix(SIMULATED.as_bytes()) {
            Some(card) => {
                format!("{SIMULATED}{}", path_text::to_text(OsStr::from_bytes(card).as_ref()))
            }
            None => path_text::to_text(name.as_ref()),
        })
    })
}

/// The value of `--confirm` for clap: a name as the prompt shows it, or a path.
pub fn confirmed_name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|name| {
        let is_path = name.as_bytes().contains(&b'/') && path_text::showable(&name).is_none();
        if is_path { path_text::to_text(name.as_ref()) } else { path_text::name_to_text(&name) }
    })
}
