//! What a terminal of 80 columns shows.

use std::io;
use std::sync::{Arc, Mutex};

use indicatif::{ProgressDrawTarget, TermLike};

use super::*;

/// A terminal of 80 columns that keeps all that is written.
#[derive(Debug, Clone, Default)]
struct Screen(Arc<Mutex<String>>);

impl TermLike for Screen {
    fn width(&self) -> u16 {
        80
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap().push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str("\n")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn eighty_columns_show_the_whole_trial() {
    let screen = Screen::default();
    let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
    let bar = ProgressBar::with_draw_target(Some(1), target).with_style(style());
    let what = "ext4 commit-60,noatime,fast_commit none under create-read-delete";
    let spent = "12 min 30 s of 30 min, 384.8 MiB of 20 GiB written, 0.012 % of its life";
    show_trial(&bar, (131, 980), ["5 min 20 s to 17 min 30 s left", spent, what]);
    bar.tick();
    let shown = screen.0.lock().unwrap().clone();
    assert!(shown.contains("131/980, 5 min 20 s to 17 min 30 s left"), "{shown}");
    assert!(shown.contains(spent) && shown.contains(what), "{shown}");
}
