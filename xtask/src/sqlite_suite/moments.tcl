# Runs a file of SQLite's tests, and keeps its databases as they are behind each test case and before each removal.
#
#   moments.tcl DIRECTORY FILE     runs the file
#   moments.tcl DIRECTORY          keeps: for each line with a directory, the databases in there
#
# A moment is what a crash would leave: the file, its rollback journal and its WAL. SQLite finds the last commit in them. Another
# process copies: one that closes a file loses all its locks on it.

# Most moments of a database, and bytes of one.
set most 300
set most_bytes 2000000

proc content {path} {
  if {[catch {open $path rb} file]} { return "" }
  set bytes [read $file]
  close $file
  return $bytes
}

# Keeps a database, unless it is as it was.
proc keep {path} {
  global directory last number left most most_bytes
  set parts {}
  foreach part {"" -journal -wal} {
    if {[file exists $path$part] && [file size $path$part] > $most_bytes} { incr left(large); return }
    lappend parts $part [content $path$part]
  }
  set name [file tail $path]
  if {[info exists last($name)] && $last($name) eq $parts} return
  set last($name) $parts
  if {[incr number($name)] > $most} { incr left(many); return }
  file mkdir $directory/$name
  foreach {part bytes} $parts {
    if {$part ne "" && $bytes eq ""} continue
    set file [open [format %s/%s/%04d.db%s $directory $name $number($name) $part] wb]
    puts -nonewline $file $bytes
    close $file
  }
}

set directory [lindex $argv 0]
if {[llength $argv] == 1} {
  array set left {large 0 many 0}
  while {[gets stdin place] >= 0} {
    foreach path [lsort [glob -nocomplain -directory $place -types f *.db]] { catch { keep $path } }
    puts kept
    flush stdout
  }
  set file [open $directory/left-out w]
  puts $file "$left(large) $left(many)"
  close $file
  exit
}

set moments_keeper [open [list |[info nameofexecutable] [info script] $directory] r+]
proc moments_keep {args} {
  puts $::moments_keeper [pwd]
  flush $::moments_keeper
  gets $::moments_keeper
}

# These are procedures of SQLite's scripts, which the file itself reads.
proc moments_after_source {args} {
  if {[info procs do_test] eq "" || [trace info execution do_test] ne ""} return
  trace add execution do_test leave moments_keep
  trace add execution forcedelete enter moments_keep
}
trace add execution source leave moments_after_source

set argv0 [lindex $argv 1]
set argv [lrange $argv 2 end]
source $argv0
