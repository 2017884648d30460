"""The hunter: modules drawn by what was seen least, run by three judges that have to agree."""
