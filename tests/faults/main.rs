//! Disks that hang or fail, clients that stall or vanish, resources that run out.
