//! The http modules, one file each, in folders by phase, and the list that registers them.
