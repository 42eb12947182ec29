//go:build !linux || !(amd64 || arm64 || arm)

package litefoot

import "embed"

const folder = ""

var prebuilt embed.FS
