//! A test of free space in words: what it will do, and what it found.

use flashfit_check::Price;
use flashfit_device::{Bytes, Device};
use flashfit_host::path_text::to_text;
use flashfit_probe::free_space::{FreeSpaceResult, FreeSpaceTest, FreeSpaceVerdict, TEST_FOLDER};
use flashfit_report::text::{plain, wrap};

use super::duration;
use super::price as show_price;

/// What a user sees before agreeing.
pub fn announcement(device: &Device, test: &FreeSpaceTest, price: &Price) -> String {
    let mut lines = vec![format!(
        "The free space of {} will be filled, read back and freed. Files on it are kept.",
        to_text(&device.path)
    )];
    lines.extend(
        test.places().map(|(place, bytes)| format!("  {} in {}", Bytes(bytes), plain(&place))),
    );
    lines.extend(test.skipped().iter().map(|reason| format!("Not tested: {}.", plain(reason))));
    lines.push(format!(
        "5 % of each file system, at least 16 MiB, stay free. While it runs, the files are in \
         {TEST_FOLDER}; if flashfit is killed, the next test removes them."
    ));
    lines.push(
        "If the device has less capacity than it claims, writing to it can damage files on it, as \
         any use of it does: copy what you need first."
            .to_owned(),
    );
    lines.push(format!("Price of the test: {}.", show_price::text(price)));
    lines.join("\n")
}

/// The result.
pub fn text(device: &Device, result: &FreeSpaceResult, width: usize) -> String {
    let mut lines = vec![headline(result)];
    let (tested, all) = (Bytes(result.tested_bytes), device.capacity);
    lines.push(format!(
        "Free space only: {tested} of {all} tested ({} %); the rest is not known.",
        result.tested_bytes * 100 / all.0.max(1)
    ));
    if let Some(wrong) = &result.wrong {
        lines.push(format!(
            "{} are not as they were written: {}.",
            Bytes(result.wrong_bytes),
            wrong.meaning()
        ));
    }
    for volume in &result.volumes {
        lines.push(format!(
            "  {}: {} written, {} read back and compared",
            plain(&volume.mounted_on),
            Bytes(volume.written_bytes),
            Bytes(volume.tested_bytes)
        ));
        if volume.leftover_files_removed > 0 {
            lines.push(format!(
                "  {} files of a test that was killed were removed first",
                volume.leftover_files_removed
            ));
        }
    }
    lines.extend(result.skipped.iter().map(|reason| format!("  not tested: {}", plain(reason))));
    let time = duration(std::time::Duration::from_nanos(result.elapsed_ns));
    lines.push(format!("It took {time}; the files of the test are removed."));
    if result.volumes.iter().any(|volume| volume.not_removed.is_some()) {
        lines.pop();
    }
    let wrapped = lines.iter().flat_map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let fold = wrap(line.trim_start(), width - indent.len());
        fold.into_iter().map(move |part| format!("{indent}{part}"))
    });
    wrapped.collect::<Vec<_>>().join("\n") + "\n"
}

fn headline(result: &FreeSpaceResult) -> String {
    match result.verdict {
        FreeSpaceVerdict::AsWritten => "Everything was read back as it was written.".to_owned(),
        FreeSpaceVerdict::Wrong => "The device does not keep what is written to it.".to_owned(),
        FreeSpaceVerdict::Incomplete => match &result.failure {
            Some(failure) => format!("The test ended early: {}.", plain(failure)),
            None => "The test was interrupted. What was compared is as it was written.".to_owned(),
        },
    }
}
