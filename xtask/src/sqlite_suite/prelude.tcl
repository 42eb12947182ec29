# Runs a file of SQLite's tests, of which no part is lost to what litefoot does not have.
#
# Outside of a test case an error ends the file, and most of these errors are of two kinds: the file reads, changes or copies a
# rollback journal, which litefoot keeps in memory; or it has a second process, which finds that the database has an
# owner. Here such a step says so and the file goes on: what the test cases behind it find is compared as ever.

set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]

# Whether this is inside a test case, whose error is the test case's.
proc in_test_case {} {
  for {set level [info frame]} {$level > 0} {incr level -1} {
    set frame [info frame $level]
    if {[dict exists $frame proc] && [dict get $frame proc] eq "::do_test"} { return 1 }
  }
  return 0
}

# Outside of test cases a command goes on where it failed; what it says then is its result.
proc goes_on {command} {
  rename $command the_$command
  proc $command {args} [string map [list COMMAND the_$command] {
    if {[catch {uplevel [linsert $args 0 COMMAND]} found]} {
      if {[in_test_case]} { error $found }
      puts "without COMMAND $args: $found"
    }
    return $found
  }]
}
goes_on hexio_read
goes_on hexio_write

# SQLite's scripts of procedures are read by the file itself.
proc after_source {words args} {
  if {[info procs testfixture] ne "" && [info procs the_testfixture] eq ""} { goes_on testfixture }
  if {[info procs do_copy_file] ne "" && [info procs the_do_copy_file] eq ""} {
    rename do_copy_file the_do_copy_file
    proc do_copy_file {force from to} {
      if {[string match *-journal $from] && ![file exists $from]} {
        puts "without $from"
      } else {
        the_do_copy_file $force $from $to
      }
    }
  }
}
trace add execution source leave after_source

source $argv0
