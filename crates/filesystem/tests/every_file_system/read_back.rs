//! The numbers that were asked for are there, by two ways of reading them where there are two.

use flashfit_device::Bytes;
use flashfit_filesystem::facts::FileSystemFacts;
use flashfit_host::{Program, Runner, SystemRunner};

use crate::card::{Card, ERASE_BLOCK, built_in, installed, mountable, recipe, run};

/// Makes it with these options, reads it back, and checks it before and after it was written to.
fn made(name: &str, options: &[&str], size: Bytes) -> Option<(Card, FileSystemFacts)> {
    let filesystem = built_in(name);
    if !installed(&[&filesystem.mkfs.tool.program, &filesystem.fsck.tool.program]) {
        return None;
    }
    let card = Card::new(size)?;
    let recipe = recipe(&filesystem, options);
    card.make(&recipe).unwrap();
    run(&recipe.fsck(card.node()));
    let facts = card.facts();
    assert_eq!(facts.kind, filesystem.kind);
    assert!(facts.uuid.is_some());
    if mountable(&filesystem) {
        card.write_and_read(&recipe).unwrap();
        run(&recipe.fsck(card.node()));
        let mounted = card.mount(&recipe).unwrap();
        let meanwhile = card.facts();
        mounted.unmount().unwrap();
        assert_eq!(
            (meanwhile.numbers, meanwhile.uuid),
            (facts.numbers.clone(), facts.uuid.clone())
        );
    }
    Some((card, facts))
}

#[track_caller]
fn assert_numbers(facts: &FileSystemFacts, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(facts.number(name), Some(*value), "{name} of {facts:?}");
    }
}

/// What another program prints of the same.
fn printed(program: &str, args: &[&str], card: &Card) -> String {
    let program = Program::new(program).args(args.to_vec());
    let outcome = SystemRunner::default().run(&program.arg(card.node()));
    outcome.unwrap().stdout
}

#[track_caller]
fn assert_printed(text: &str, name: &str, value: &str) {
    let line = text.lines().find(|line| line.contains(name)).unwrap_or_default();
    let found = line.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == value);
    assert!(found, "{name} {value} in {text}");
}

#[test]
fn ext2_ext3_and_ext4() {
    for name in ["ext2", "ext3", "ext4"] {
        let Some((_, facts)) = made(name, &["geometry"], Bytes::mib(64)) else { return };
        let numbers = [("block_bytes", 4096), ("stride_blocks", 4), ("stripe_width_blocks", 1024)];
        assert_numbers(&facts, &numbers);
        assert_eq!(facts.has_feature("has_journal"), name != "ext2");
        assert_eq!(facts.data_start_bytes, None);
    }
    let Some((_, facts)) = made("ext4", &["bigalloc"], Bytes::mib(64)) else { return };
    assert_numbers(&facts, &[("cluster_bytes", 64 << 10)]);
    assert_eq!(facts.number("stride_blocks"), None);
}

#[test]
fn btrfs() {
    let options = ["nodesize-32k", "metadata-single", "xxhash"];
    let Some((_, facts)) = made("btrfs", &options, Bytes::mib(160)) else { return };
    assert_numbers(&facts, &[("node_bytes", 32 << 10), ("sector_bytes", 4096)]);
    assert_eq!(facts.word("checksum"), Some("xxhash64"));
    assert!(facts.has_feature("NO_HOLES"), "{facts:?}");
}

#[test]
fn xfs() {
    let Some((_, facts)) = made("xfs", &["geometry", "agcount-2"], Bytes::mib(320)) else { return };
    assert_numbers(
        &facts,
        &[
            ("block_bytes", 4096),
            ("sunit_bytes", 16 << 10),
            ("swidth_bytes", ERASE_BLOCK.0),
            ("allocation_groups", 2),
        ],
    );
    assert!(facts.has_feature("reflink"), "{facts:?}");
    let Some((_, plain)) = made("xfs", &["noreflink"], Bytes::mib(320)) else { return };
    assert_eq!(plain.number("sunit_bytes"), None);
    assert!(!plain.has_feature("reflink"), "{plain:?}");
}

#[test]
fn f2fs() {
    let options = ["geometry", "zone-2", "compression"];
    let Some((card, facts)) = made("f2fs", &options, Bytes::mib(256)) else { return };
    assert_numbers(&facts, &[("section_bytes", ERASE_BLOCK.0), ("zone_sections", 2)]);
    let start = facts.data_start_bytes.unwrap();
    assert_eq!((card.start_bytes + start) % ERASE_BLOCK.0, 0);
    assert!(facts.has_feature("compression") && facts.has_feature("extra_attr"), "{facts:?}");
    let text = printed("dump.f2fs", &["-d", "1"], &card);
    assert_printed(&text, "main_blkaddr", &(start / 4096).to_string());
    assert_printed(&text, "segs_per_sec", "2");
    assert_printed(&text, "superblock features", "compression");
}

#[test]
fn fat32() {
    // With clusters of 32 KiB there are enough of them for FAT32 from 2 GiB on.
    for variant in ["geometry", "vendor"] {
        let Some((card, facts)) = made("fat32", &[variant], Bytes::mib(2304)) else { return };
        assert_numbers(&facts, &[("cluster_bytes", 32 << 10), ("reserved_sectors", 7040)]);
        let start = facts.data_start_bytes.unwrap();
        assert_eq!(facts.number("data_start_bytes"), Some(start));
        let text = printed("fsck.fat", &["-n", "-v"], &card);
        assert_printed(&text, "Data area starts at byte", &start.to_string());
        let table = facts.number("table_sectors").unwrap();
        assert_eq!(start, (7040 + 2 * table) * 512);
        assert_eq!(facts.word("variant"), Some("FAT32"));
    }
}

#[test]
fn exfat() {
    for (options, border, cluster) in [
        (vec!["geometry"], ERASE_BLOCK.0, 32 << 10),
        (vec!["vendor", "pack-bitmap"], 16 << 20, 128 << 10),
    ] {
        let Some((card, facts)) = made("exfat", &options, Bytes::mib(128)) else { return };
        assert_numbers(&facts, &[("cluster_bytes", cluster)]);
        let start = facts.data_start_bytes.unwrap();
        let text = printed("dump.exfat", &[], &card);
        assert_printed(&text, "Cluster Heap Offset", &(start / 512).to_string());
        // A packed bitmap is a cluster before the border, so that what follows it is on it.
        let first_file = if options.len() == 2 { start + cluster } else { start };
        assert_eq!((card.start_bytes + first_file) % border, 0, "{facts:?}");
    }
}

#[test]
fn nilfs2() {
    let Some((card, facts)) = made("nilfs2", &["geometry"], Bytes::mib(160)) else { return };
    assert_numbers(&facts, &[("block_bytes", 4096), ("segment_bytes", ERASE_BLOCK.0)]);
    let text = printed("nilfs-tune", &["-l"], &card);
    assert_printed(&text, "# of blocks per segment", "1024");
}

#[test]
fn the_least_device_of_each_takes_its_base() {
    for name in ["ext2", "ext3", "f2fs", "fat32", "exfat", "xfs", "nilfs2"] {
        let filesystem = built_in(name);
        if !installed(&[&filesystem.mkfs.tool.program]) {
            continue;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(filesystem.min_device_size.0).unwrap();
        run(&recipe(&filesystem, &[]).mkfs(file.path()));
        let facts = flashfit_filesystem::facts::read(&SystemRunner::default(), file.path());
        assert_eq!(facts.unwrap().unwrap().kind, filesystem.kind);
    }
}

#[test]
fn nothing_is_read_from_an_empty_device_and_from_a_partition_table() {
    let Some(card) = Card::new(Bytes::mib(16)) else { return };
    let runner = SystemRunner::default();
    let read = |node| flashfit_filesystem::facts::read(&runner, node).unwrap();
    assert_eq!(read(card.node()), None);
    assert_eq!(read(&card.folder().join("image")), None);
}
