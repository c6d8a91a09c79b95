//! Tests of recorded traces.

use flashfit_catalog::Origin;

use super::*;

fn header() -> TraceHeader {
    TraceHeader {
        filesystem: "ext4".to_owned(),
        options: Vec::new(),
        workload: "logs".to_owned(),
        card: "small".to_owned(),
        capacity: Bytes::mib(1),
        fill_percent: 50,
        age_rounds: 1,
        data_size: Bytes::kib(64),
        written_by_programs: Bytes::kib(8),
        kernel: "6.1".to_owned(),
        mkfs: "1.47".to_owned(),
        seed: 1,
    }
}

fn write(block: u64, blocks: u64) -> TracedRequest {
    TracedRequest::Write { offset: block * BLOCK_BYTES, length: blocks * BLOCK_BYTES }
}

fn recording() -> Vec<TracedRequest> {
    let discard = TracedRequest::Discard { offset: 4096, length: 4096 };
    vec![
        write(0, 4),
        discard,
        TracedRequest::Mark,
        write(8, 1),
        TracedRequest::Mark,
        TracedRequest::Flush,
        TracedRequest::Mark,
        write(9, 1),
    ]
}

#[test]
fn a_trace_is_written_and_read_back() {
    let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
    assert_eq!(trace.initial, [(0, 4096), (8192, 8192)]);
    assert_eq!(trace.requests, [write(8, 1), TracedRequest::Flush]);
    let entry = CatalogEntry {
        name: "ext4-logs".to_owned(),
        text: trace.to_text(),
        origin: Origin::BuiltIn("traces/ext4-logs.toml".to_owned()),
    };
    assert_eq!(RecordedTrace::parse(&entry).unwrap(), trace);
    assert_eq!(trace.device_bytes(), 4096);
    let text = entry.text.replace("capacity = 1048576", "capacity = 16384");
    let error = RecordedTrace::parse(&CatalogEntry { text, ..entry }).unwrap_err();
    assert!(error.to_string().ends_with("behind the end of the card"), "{error}");
}

#[test]
fn a_mistake_of_a_trace_has_its_line_and_a_hint() {
    let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
    let text = trace.to_text();
    let line = |start: &str| text.lines().position(|line| line.starts_with(start)).unwrap() + 1;
    for (from, to, line, reason) in [
        ("seed = 1", "seed = \"x\"", line("seed"), "invalid type"),
        ("seed = 1", "sed = 1", line("seed"), "did you mean `seed`?"),
        ("capacity = 1048576", "capacity = 16384", line("capacity"), "capacity: a request"),
        ("data = \"\"\"\n", "data = \"\"\"\n!", line("data ="), "data: "),
        ("\nwritten_by_programs = 8192", "", 1, "missing field `written_by_programs`"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        let origin = Origin::File("mine.toml".into());
        let entry = CatalogEntry { name: "mine".to_owned(), text: changed, origin };
        let error = RecordedTrace::parse(&entry).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(&format!("mine.toml:{line}: ")) && told.contains(reason), "{told}");
        assert!(error.hint().is_some(), "{told}");
    }
}

fn is_written_as_new_ones_are(entry: &CatalogEntry) {
    let text = RecordedTrace::parse(entry).unwrap().to_text();
    assert!(text == entry.text, "{} differs", entry.origin);
}

#[test]
fn the_smallest_built_in_trace_is_written_as_new_ones_are() {
    let all = entries("traces", "toml", None).unwrap();
    is_written_as_new_ones_are(all.iter().min_by_key(|entry| entry.text.len()).unwrap());
}

/// `FLASHFIT_BLESS=1` writes the files again.
#[test]
#[ignore = "full: codes megabytes of requests"]
fn built_in_traces_are_written_as_new_ones_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/traces");
    for entry in entries("traces", "toml", None).unwrap() {
        if std::env::var_os("FLASHFIT_BLESS").is_some() {
            let text = RecordedTrace::parse(&entry).unwrap().to_text();
            std::fs::write(folder.join(format!("{}.toml", entry.name)), text).unwrap();
        } else {
            is_written_as_new_ones_are(&entry);
        }
    }
}

#[test]
fn a_trace_without_coding_is_compressed_with_zlib() {
    let trace = RecordedTrace::from_recording(header(), "record".into(), &recording()).unwrap();
    let text = trace.to_text().replace("coding = \"context-mixing\"\n", "");
    let (head, data) = text.split_once("\"\"\"\n").unwrap();
    let data = STANDARD.decode(data.lines().next().unwrap()).unwrap();
    let bytes = trace_coding::decode(&data, DATA_BYTES_MAX).unwrap();
    let packed = STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(&bytes, 9));
    let text = format!("{head}\"\"\"\n{packed}\n\"\"\"\n");
    let origin = Origin::BuiltIn("traces/ext4-logs.toml".to_owned());
    let entry = CatalogEntry { name: "ext4-logs".to_owned(), text, origin };
    assert_eq!(RecordedTrace::parse(&entry).unwrap(), trace);
}

#[test]
fn the_default_setup_of_a_recorded_file_system_is_listed() {
    assert_eq!(recorded_options("ext4", None).unwrap(), [Vec::<String>::new()]);
    assert!(recorded_options("nilfs2", None).unwrap().is_empty());
}

#[test]
fn an_unmarked_recording_is_refused() {
    let made = |all: &[_]| RecordedTrace::from_recording(header(), String::new(), all);
    assert!(matches!(made(&recording()[..2]), Err(TraceFileError::Incomplete(_))));
    assert!(matches!(made(&recording()[4..7]), Err(TraceFileError::Incomplete(_))));
}

#[test]
fn a_recording_of_something_else_than_its_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    let options = vec!["noatime".to_owned(), "discard".to_owned()];
    let header = TraceHeader { options, ..header() };
    let trace = RecordedTrace::from_recording(header, "record".into(), &recording()).unwrap();
    let mut found = ["ext4+discard+noatime-logs", "ext4-logs", "ext4+discard+noatime-database"]
        .map(|name| {
            std::fs::write(traces.join(format!("{name}.toml")), trace.to_text()).unwrap();
            find(name, Some(folder.path()))
        })
        .into_iter();
    assert_eq!(found.next().unwrap().unwrap(), Some(trace));
    for error in found.map(Result::unwrap_err) {
        assert!(error.to_string().contains("`ext4+noatime+discard-logs`"), "{error}");
        assert!(error.hint().is_some());
    }
}
