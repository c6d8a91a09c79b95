//! Reads ELF files: a program's loader, a kernel module's description, and a kernel's entry point.
//!
//! A module's description is in its `.modinfo` section, a sequence of `key=value` strings
//! terminated by 0.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile32, ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ReadCache, ReadRef};

/// A program's loader (`PT_INTERP`); `None` if it is static or not an ELF file.
pub(crate) fn interpreter(path: &Path) -> std::io::Result<Option<PathBuf>> {
    let cache = ReadCache::new(File::open(path)?);
    if let Ok(file) = ElfFile64::<object::Endianness, _>::parse(&cache) {
        return Ok(interpreter_of(file.elf_header(), &cache));
    }
    if let Ok(file) = ElfFile32::<object::Endianness, _>::parse(&cache) {
        return Ok(interpreter_of(file.elf_header(), &cache));
    }
    Ok(None)
}

fn interpreter_of<'a, H, R>(header: &H, data: R) -> Option<PathBuf>
where
    H: FileHeader,
    R: ReadRef<'a>,
{
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, data).ok()?;
    let name = headers.iter().find_map(|part| part.interpreter(endian, data).ok().flatten())?;
    Some(PathBuf::from(String::from_utf8_lossy(name).into_owned()))
}

/// A kernel module's description, as pairs of key and value in the order of the file.
pub(crate) fn module_info<'a, R: ReadRef<'a>>(data: R) -> Option<Vec<(String, String)>> {
    let file = object::File::parse(data).ok()?;
    let section = file.section_by_name(".modinfo")?;
    let bytes = section.data().ok()?;
    let texts = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    Some(
        texts
            .filter_map(|text| {
                text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
            })
            .collect(),
    )
}

/// Whether QEMU can boot a kernel directly: it has a Xen ELF note with a 32-bit entry address.
pub(crate) fn has_pvh_entry(path: &Path) -> bool {
    const XEN_PHYS32_ENTRY: object::elf::NoteType = object::elf::NoteType(18);
    let Ok(file) = File::open(path) else { return false };
    let cache = ReadCache::new(file);
    let Ok(file) = ElfFile64::<object::Endianness, _>::parse(&cache) else { return false };
    let endian = file.endian();
    file.elf_program_headers().iter().any(|part| {
        let Ok(Some(mut notes)) = part.notes(endian, &cache) else { return false };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"Xen" && note.n_type(endian) == XEN_PHYS32_ENTRY {
                return true;
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_names_its_loader() {
        let own = std::env::current_exe().unwrap();
        let loader = interpreter(&own).unwrap();
        if cfg!(target_feature = "crt-static") {
            assert_eq!(loader, None);
        } else {
            assert!(loader.unwrap().exists());
        }
    }

    #[test]
    fn a_file_that_is_not_elf_has_no_loader() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(interpreter(&file).unwrap(), None);
        assert_eq!(module_info(&b"no module"[..]), None);
        assert!(!has_pvh_entry(&file) && !has_pvh_entry(&std::env::current_exe().unwrap()));
    }
}
