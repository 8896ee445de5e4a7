// Packs modules as a module proxy serves them: go run . VERSION OUTPUT DIRECTORY... writes what GOPROXY=file://OUTPUT
// needs. It is a module of its own, so that nobody who uses the SDK gets what it needs.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: pack VERSION OUTPUT DIRECTORY...")
	}
	for _, directory := range os.Args[3:] {
		if err := pack(os.Args[1], os.Args[2], directory); err != nil {
			log.Fatalf("failed to pack %s: %v", directory, err)
		}
	}
}

func pack(version, output, directory string) error {
	definition, err := os.ReadFile(filepath.Join(directory, "go.mod"))
	if err != nil {
		return err
	}
	packed := module.Version{Path: modfile.ModulePath(definition), Version: version}
	escaped, err := module.EscapePath(packed.Path)
	if err != nil {
		return err
	}
	base := filepath.Join(output, escaped, "@v")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": definition,
	} {
		if err := os.WriteFile(filepath.Join(base, name), content, 0o644); err != nil {
			return err
		}
	}
	return writeZip(packed, filepath.Join(base, version+".zip"), directory)
}

func writeZip(packed module.Version, name, directory string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(file, packed, directory); err != nil {
		return err
	}
	fmt.Println(name)
	return file.Close()
}
