//! Removes libraries from a copy of a program that does not need them in the guest.
//!
//! Debian's fio loads 64 libraries, of which eight direct ones, with all that they need, are for
//! engines that write over a network or to persistent memory. A guest has neither, and no workload
//! can use these engines. A start of an emulated fio spends more than half of its time with loading
//! them.
//!
//! In the copy, the loader's list (`DT_NEEDED`) and the versions that are checked
//! (`.gnu.version_r`) lack these libraries. Symbols that come from them become weak: their address
//! is 0, so a program that uses them after all dies. Nothing is moved, and no code changes.
//!
//! Limits: 64-bit little-endian programs with section headers. Other programs are copied whole.
//! Source: System V ABI, Dynamic Linking; Linux Standard Base, Symbol Versioning.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{
    DT_NEEDED, DT_VERNEED, DT_VERNEEDNUM, Dyn64, SHN_UNDEF, SHT_DYNAMIC, SHT_DYNSYM,
    SHT_GNU_VERNEED, SHT_GNU_VERSYM, STB_WEAK, SectionHeader64, SectionType, Sym64, VER_NDX_GLOBAL,
    Vernaux, Verneed, VersionIndex, Versym, VersymIndex,
};
use object::pod::{Pod, bytes_of_slice_mut, from_bytes, from_bytes_mut, slice_from_all_bytes_mut};
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};

/// Where the tables of the dynamic linker are in a file, in bytes.
struct Tables {
    dynamic: Range<usize>,
    symbols: Range<usize>,
    names: Range<usize>,
    needed_versions: Range<usize>,
    symbol_versions: Range<usize>,
}

/// The program without the libraries whose file names `is_unused` accepts; `None` if it has none of
/// them, or if it cannot be changed safely.
pub(crate) fn without(program: &[u8], is_unused: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let tables = tables(program)?;
    let mut copy = program.to_owned();
    let names = program.get(tables.names.clone())?;
    let is_unused = |name: u32| text(names, name).is_some_and(&is_unused);
    remove_needed(copy.get_mut(tables.dynamic.clone())?, &is_unused)?;
    let versions = remove_versions(copy.get_mut(tables.needed_versions.clone())?, &is_unused)?;
    let dynamic: &mut [Dyn64<LE>] = all(copy.get_mut(tables.dynamic.clone())?)?;
    for entry in dynamic {
        match entry.d_tag.get(LE) {
            DT_VERNEEDNUM => entry.d_val.set(LE, versions.kept),
            DT_VERNEED => entry.d_val.set(LE, entry.d_val.get(LE) + versions.first),
            _ => {}
        }
    }
    weaken(&mut copy, &tables, &versions.removed)?;
    Some(copy)
}

fn tables(program: &[u8]) -> Option<Tables> {
    let file = ElfFile64::<LE, _>::parse(program).ok()?;
    let sections = file.elf_header().sections(LE, program).ok()?;
    let of = |kind: SectionType| sections.iter().find(|section| section.sh_type(LE) == kind);
    let place = |section: &SectionHeader64<LE>| {
        let (start, bytes) = section.file_range(LE)?;
        let start = usize::try_from(start).ok()?;
        Some(start..start.checked_add(usize::try_from(bytes).ok()?)?)
    };
    let symbols = of(SHT_DYNSYM)?;
    Some(Tables {
        dynamic: place(of(SHT_DYNAMIC)?)?,
        symbols: place(symbols)?,
        names: place(sections.section(symbols.link(LE)).ok()?)?,
        needed_versions: place(of(SHT_GNU_VERNEED)?)?,
        symbol_versions: place(of(SHT_GNU_VERSYM)?)?,
    })
}

fn text(names: &[u8], at: u32) -> Option<&str> {
    let rest = names.get(usize::try_from(at).ok()?..)?;
    std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
}

fn all<T: Pod>(bytes: &mut [u8]) -> Option<&mut [T]> {
    slice_from_all_bytes_mut(bytes).ok()
}

/// Moves the entries that stay to the front; the rest becomes the end mark, which is all zeros.
/// `None` if all stay.
fn remove_needed(dynamic: &mut [u8], is_unused: &dyn Fn(u32) -> bool) -> Option<()> {
    let entries: &mut [Dyn64<LE>] = all(dynamic)?;
    let stays = |entry: &&Dyn64<LE>| {
        entry.d_tag.get(LE) != DT_NEEDED || !u32::try_from(entry.d_val.get(LE)).is_ok_and(is_unused)
    };
    let kept: Vec<Dyn64<LE>> = entries.iter().filter(stays).copied().collect();
    let (front, rest) = entries.split_at_mut(kept.len());
    front.copy_from_slice(&kept);
    bytes_of_slice_mut(rest).fill(0);
    (!rest.is_empty()).then_some(())
}

struct NeededVersions {
    kept: u64,
    /// Of the first record that stays, in bytes from the beginning.
    first: u64,
    removed: Vec<VersionIndex>,
}

/// Takes the records of unused libraries out of the chain.
fn remove_versions(records: &mut [u8], is_unused: &dyn Fn(u32) -> bool) -> Option<NeededVersions> {
    let (mut kept, mut removed) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        let (record, _) = from_bytes::<Verneed<LE>>(records.get(at..)?).ok()?;
        if is_unused(record.vn_file.get(LE)) {
            let mut version_at = at + usize::try_from(record.vn_aux.get(LE)).ok()?;
            for _ in 0..record.vn_cnt.get(LE) {
                let (version, _) = from_bytes::<Vernaux<LE>>(records.get(version_at..)?).ok()?;
                removed.push(version.vna_other.get(LE));
                version_at += usize::try_from(version.vna_next.get(LE)).ok()?;
            }
        } else {
            kept.push(at);
        }
        match usize::try_from(record.vn_next.get(LE)).ok()? {
            0 => break,
            step => at += step,
        }
    }
    for (number, at) in kept.iter().enumerate() {
        let next = kept.get(number + 1).map_or(0, |next| next - at);
        let (record, _) = from_bytes_mut::<Verneed<LE>>(records.get_mut(*at..)?).ok()?;
        record.vn_next.set(LE, u32::try_from(next).ok()?);
    }
    let first = u64::try_from(*kept.first()?).ok()?;
    Some(NeededVersions { kept: u64::try_from(kept.len()).ok()?, first, removed })
}

/// Makes symbols weak that come from removed libraries. Those without a version may come from
/// anywhere, and are still found in the libraries that stay.
fn weaken(copy: &mut [u8], tables: &Tables, removed: &[VersionIndex]) -> Option<()> {
    let versions: &mut [Versym<LE>] = all(copy.get_mut(tables.symbol_versions.clone())?)?;
    let before: Vec<VersionIndex> = versions.iter().map(|one| one.0.get(LE).index()).collect();
    for version in versions.iter_mut().filter(|one| removed.contains(&one.0.get(LE).index())) {
        version.0.set(LE, VersymIndex::from(VER_NDX_GLOBAL));
    }
    let symbols: &mut [Sym64<LE>] = all(copy.get_mut(tables.symbols.clone())?)?;
    for (symbol, version) in symbols.iter_mut().zip(before).skip(1) {
        let is_removed = removed.contains(&version);
        let is_undefined = symbol.st_shndx.get(LE) == SHN_UNDEF;
        // Data that the program copies from the library would be lacking.
        if is_removed && !is_undefined {
            return None;
        }
        if is_undefined && (is_removed || version <= VER_NDX_GLOBAL) {
            symbol.set_st_info(STB_WEAK, symbol.st_type());
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use flashfit_host::program;
    use flashfit_test_support::{TestNeed, skip};

    use super::*;
    use crate::elf;

    fn listed(program: &Path) -> String {
        let loader = elf::interpreter(program).unwrap().unwrap();
        let output = Command::new(loader).arg("--list").arg(program).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_program_runs_without_a_library_that_it_does_not_use() {
        let own = std::env::current_exe().unwrap();
        if cfg!(not(all(target_pointer_width = "64", target_endian = "little")))
            || elf::interpreter(&own).unwrap().is_none()
        {
            return;
        }
        // It unwinds the stack, only after a panic.
        let library = "libgcc_s.so";
        assert!(listed(&own).contains(library));
        let copy =
            without(&std::fs::read(&own).unwrap(), |name| name.starts_with(library)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("copy");
        std::fs::write(&file, copy).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!listed(&file).contains(library));
        let status = Command::new(&file).arg("--list").stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{status}");
    }

    #[test]
    fn a_program_that_lacks_the_library_is_left_alone() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(without(&own, |name| name == "libflashfit-none.so").is_none());
    }

    #[test]
    fn damaged_programs_are_left_alone() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(without(b"#!/bin/sh", |_| true).is_none());
        for end in [0, 63, 64, 4096, own.len() / 2, own.len() - 1] {
            assert!(without(&own[..end], |name| name.starts_with("libgcc_s")).is_none(), "{end}");
        }
    }

    /// Nothing in it is left to be found in the libraries that are lacking.
    #[test]
    fn fio_starts_without_the_libraries_of_its_network_engines() {
        let Some(fio) = program::find("fio") else {
            assert!(skip(Some(TestNeed::Fio.missing("fio is not installed"))));
            return;
        };
        let fio = std::fs::canonicalize(fio).unwrap();
        let names = crate::programs::unused_libraries("fio");
        let is_unused = |name: &str| names.iter().any(|unused| name.starts_with(unused));
        let Some(copy) = without(&std::fs::read(&fio).unwrap(), is_unused) else {
            assert!(!names.iter().any(|unused| listed(&fio).contains(unused)));
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fio");
        std::fs::write(&file, copy).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(listed(&file).lines().count() < listed(&fio).lines().count());
        let engine = ["--name=x", "--size=4k", "--ioengine=null", "--thread=1"];
        let output = Command::new(&file).args(engine).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
