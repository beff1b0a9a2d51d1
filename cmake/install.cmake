# `make install` installs programs into bin or sbin, libedi and edi.h, documentation, the udev rule,
# units of systemd, completion for bash and zsh, the entry for file(1), and the helpers of mount(8)
# and umount(8). The helpers are in /sbin with any prefix, because mount(8) and umount(8) look for
# them there.

set(INSTALLED_PROGRAMS edicreate edidump edistats lazyfsctl profiler smrsim smrdisk)
set(INSTALLED_SYSTEM_PROGRAMS lazyfs mkfs.lazyfs fsck.lazyfs lazyfs-debug lazyfs-id)

foreach(program ${INSTALLED_PROGRAMS})
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
foreach(program ${INSTALLED_SYSTEM_PROGRAMS})
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_SBINDIR})
  endif()
endforeach()

# `smrsim plot` and `profiler plot` run them, and look for them beside themselves.
install(PROGRAMS tools/smrsim-plot tools/profiler-plot DESTINATION ${CMAKE_INSTALL_BINDIR})

# A remount looks for the helper of the type that /proc/mounts shows.
foreach(helper mount.lazyfs umount.lazyfs)
  configure_file(tools/${helper} ${CMAKE_BINARY_DIR}/install/${helper} @ONLY)
endforeach()
foreach(name mount.lazyfs mount.fuse.lazyfs mount.fuseblk.lazyfs)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/install/mount.lazyfs DESTINATION /sbin RENAME ${name}
    COMPONENT helpers)
endforeach()
foreach(name umount.fuse umount.fuse.lazyfs)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/install/umount.lazyfs DESTINATION /sbin RENAME ${name}
    COMPONENT helpers)
endforeach()

# udevd reads the folder below /usr and below /usr/local.
configure_file(contrib/udev/61-lazyfs.rules.in ${CMAKE_BINARY_DIR}/install/61-lazyfs.rules @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/61-lazyfs.rules DESTINATION lib/udev/rules.d)
install(FILES contrib/file/lazyfs.magic contrib/grafana/lazyfs.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lazyfs)
install(FILES contrib/modprobe.d/lazyfs.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/lazyfs
  RENAME modprobe.conf)

# systemd reads the folder below /usr and below /usr/local.
file(GLOB units RELATIVE ${PROJECT_SOURCE_DIR}/contrib/systemd CONFIGURE_DEPENDS
  contrib/systemd/*.in)
foreach(template ${units})
  string(REGEX REPLACE "\\.in$" "" unit ${template})
  configure_file(contrib/systemd/${template} ${CMAKE_BINARY_DIR}/install/${unit} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/install/${unit} DESTINATION lib/systemd/system)
endforeach()

# bash-completion looks for a file of each program's name.
set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
foreach(program ${INSTALLED_PROGRAMS} ${INSTALLED_SYSTEM_PROGRAMS})
  install(FILES contrib/completion/lazyfs.bash DESTINATION ${completions} RENAME ${program})
endforeach()
install(FILES contrib/completion/_lazyfs
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

# Pages lie as in the tree, with all that they link to (test/installed_links.py).
install(FILES README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(FILES contrib/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/contrib
  COMPONENT documentation)
install(FILES contrib/grafana/lazyfs.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/contrib/grafana
  COMPONENT documentation)
foreach(section 1 3 5 8)
  file(GLOB pages CONFIGURE_DEPENDS docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
