//! File systems of their own for a benchmark: images in the scratch folder, mounted through loop devices. Needs root.

use std::path::PathBuf;

use crate::bench::Bench;
use crate::cgroup;
use crate::error::{Error, ErrorContext, Result};
use crate::machine::find;
use crate::process::run;

/// A mounted file system; unmounted when dropped. It must outlive the servers that use it.
#[derive(Debug)]
pub struct MountedDisk {
    image: PathBuf,
    /// The folder that it is mounted on.
    pub path: PathBuf,
    mounted: bool,
}

impl MountedDisk {
    /// Makes a file system of `size` bytes, which takes up what is written to it, and mounts it.
    pub fn make(bench: &Bench, name: &str, size: u64) -> Result<MountedDisk> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Setup("this benchmark mounts file systems: run it as root".into()));
        }
        let image = bench.scratch.folder("data")?.join(format!("{name}.img"));
        let file = std::fs::File::create(&image).doing(image.display())?;
        file.set_len(size).doing(image.display())?;
        let path = bench.scratch.folder(&format!("mounts/{name}"))?;
        let mut disk = MountedDisk { image, path, mounted: false };
        disk.tool("mkfs.ext4", &["-q", "-F", "-m", "0", &disk.image.display().to_string()])?;
        disk.mount()?;
        Ok(disk)
    }

    fn tool(&self, name: &str, args: &[&str]) -> Result<()> {
        let program = find(name).ok_or_else(|| Error::Setup(format!("there is no {name}")))?;
        run(&program, args, &self.path)
    }

    fn mount(&mut self) -> Result<()> {
        let (image, path) = (self.image.display().to_string(), self.path.display().to_string());
        self.tool("mount", &["-o", "loop", &image, &path])?;
        self.mounted = true;
        Ok(())
    }

    /// Takes it away and mounts it again: nothing of it is in memory then. No server may have files of it open.
    pub fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    fn unmount(&mut self) -> Result<()> {
        if self.mounted {
            let program = find("umount").ok_or_else(|| Error::Setup("there is no umount".into()))?;
            // Not with the mount as the working folder.
            run(&program, &[&self.path.display().to_string()], std::path::Path::new("/"))?;
            self.mounted = false;
        }
        Ok(())
    }

    /// The device, to throttle it.
    pub fn device(&self) -> Result<cgroup::Disk> {
        cgroup::Disk::of(&self.path)
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{} stays mounted: {error}", self.path.display());
        }
    }
}
