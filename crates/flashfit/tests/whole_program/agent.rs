//! The agent's directory: existing files are kept.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::fixture::Place;

#[test]
fn an_agent_deletes_only_its_own_files() {
    let place = Place::new();
    std::fs::create_dir(place.path("photos")).unwrap();
    std::fs::set_permissions(place.path("photos"), PermissionsExt::from_mode(0o700)).unwrap();
    let photo = place.file("photos/one.jpg", "a photo");
    symlink("photos", place.path("link")).unwrap();
    let refused = |args: &[&str], texts: &[&str]| {
        place.flashfit(&[&["agent", "--linger", "0"], args].concat()).said(3, texts);
        assert_eq!(std::fs::read_to_string(&photo).unwrap(), "a photo");
        assert_eq!(std::fs::read_dir(place.path("photos")).unwrap().count(), 1);
    };
    refused(&["--listen", "photos"], &["contains `one.jpg`", "hint: name a directory"]);
    refused(&["--listen", "link"], &["not a directory, or a link"]);
    refused(&["--folder", "photos"], &["contains `one.jpg`"]);
    std::fs::remove_file(&photo).unwrap();
    for folder in ["photos", "new"] {
        place.flashfit(&["agent", "--linger", "0", "--listen", folder]).said(0, &[]);
        assert!(!place.path(folder).exists(), "{folder}");
    }
}
